//! What daemon and guard say to each other over one socket pair, whose packets keep their borders. The daemon
//! sends one order and then only closes its side, which means "end the tree"; the guard sends reports.

use crate::defaults::ProcessDefaults;
use rustix::{
    fs::{MemfdFlags, memfd_create},
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
        SendFlags, recvmsg, send, sendmsg,
    },
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::File,
    io::{self, BufReader, BufWriter, IoSlice, IoSliceMut, Seek as _, Write as _},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
};

/// No report is longer.
pub(crate) const REPORT_BYTES: usize = 256;
const ORDER_PACKET: &[u8] = b"maestro guard order 1";

/// What a guard starts and how.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
    pub(crate) cwd: OsString,
    pub(crate) env: Vec<(OsString, OsString)>,
    pub(crate) grace_ms: u64,
    pub(crate) defaults: ProcessDefaults,
}

/// The descriptors that go with an order.
#[derive(Debug)]
pub(crate) struct Handover {
    pub(crate) stdin: OwnedFd,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    /// The daemon, as a pidfd.
    pub(crate) daemon: OwnedFd,
}

/// Where a start failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Order,
    Limits,
    Directory,
    Program,
    Interpreter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) step: Step,
    pub(crate) errno: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Report {
    Started { pid: u32 },
    Failed(Failure),
    Exited { code: i32 },
    Signalled { signal: i32 },
    Gone,
}

/// Sends the order. It travels as a file in memory, so that its size never blocks the sender, and it is in no
/// argument or environment that others can read.
pub(crate) fn send_order(
    socket: BorrowedFd<'_>,
    order: &Order,
    stdio: [BorrowedFd<'_>; 3],
    daemon: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut file = File::from(memfd_create("maestro-order", MemfdFlags::CLOEXEC)?);
    let mut writer = BufWriter::new(&file);
    serde_json::to_writer(&mut writer, order)?;
    writer.flush()?;
    drop(writer);
    file.rewind()?;
    let [stdin, stdout, stderr] = stdio;
    let descriptors = [file.as_fd(), stdin, stdout, stderr, daemon];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::Error::other("no room for the descriptors of an order"));
    }
    sendmsg(socket, &[IoSlice::new(ORDER_PACKET)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn receive_order(socket: BorrowedFd<'_>) -> io::Result<(Order, Handover)> {
    let mut packet = [0; ORDER_PACKET.len()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received =
        recvmsg(socket, &mut [IoSliceMut::new(&mut packet)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut descriptors: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let no_order =
        || io::Error::new(io::ErrorKind::InvalidData, "no order came: a guard is started by maestro only");
    if packet[..received] != *ORDER_PACKET {
        return Err(no_order());
    }
    let [file, stdin, stdout, stderr, daemon] = descriptors.try_into().or(Err(no_order()))?;
    let order = serde_json::from_reader(BufReader::new(File::from(file)))?;
    Ok((order, Handover { stdin, stdout, stderr, daemon }))
}

pub(crate) fn send_report(socket: BorrowedFd<'_>, report: Report) -> io::Result<()> {
    send(socket, &serde_json::to_vec(&report)?, SendFlags::NOSIGNAL)?;
    Ok(())
}

pub(crate) fn read_report(packet: &[u8]) -> io::Result<Report> {
    Ok(serde_json::from_slice(packet)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, recv, socketpair};
    use std::{io::Read as _, os::unix::ffi::OsStringExt as _};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn an_order_arrives_with_its_descriptors_whatever_its_size() {
        let odd = OsString::from_vec(vec![b'a', 0xff, b'=', b'\n']);
        let order = Order {
            program: odd.clone(),
            args: vec!["x".repeat(400_000).into(), OsString::new()],
            cwd: "/".into(),
            env: vec![("NAME".into(), odd)],
            grace_ms: u64::MAX,
            defaults: ProcessDefaults::replace(),
        };
        let (ours, theirs) = pair();
        let file = tempfile::tempfile().unwrap();
        (&file).write_all(b"the daemon").unwrap();
        (&file).rewind().unwrap();
        let null = File::open("/dev/null").unwrap();
        send_order(ours.as_fd(), &order, [null.as_fd(); 3], file.as_fd()).unwrap();
        let (arrived, handover) = receive_order(theirs.as_fd()).unwrap();
        assert_eq!(arrived, order);
        let mut text = String::new();
        File::from(handover.daemon).read_to_string(&mut text).unwrap();
        assert_eq!(text, "the daemon");
    }

    #[test]
    fn anything_else_is_no_order() {
        for packet in [&b"hello"[..], ORDER_PACKET, &[0; 100]] {
            let (ours, theirs) = pair();
            send(&ours, packet, SendFlags::empty()).unwrap();
            assert_eq!(receive_order(theirs.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let (ours, theirs) = pair();
        drop(ours);
        assert_eq!(receive_order(theirs.as_fd()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn every_report_fits_its_packet() {
        for report in [
            Report::Started { pid: u32::MAX },
            Report::Failed(Failure { step: Step::Interpreter, errno: i32::MIN }),
            Report::Exited { code: i32::MIN },
            Report::Signalled { signal: i32::MIN },
            Report::Gone,
        ] {
            let (ours, theirs) = pair();
            send_report(ours.as_fd(), report).unwrap();
            let mut packet = [0; REPORT_BYTES];
            let length = recv(&theirs, &mut packet, RecvFlags::TRUNC).unwrap().1;
            assert_eq!(read_report(&packet[..length]).unwrap(), report);
        }
        read_report(b"{}").unwrap_err();
    }
}
