//! Clients that break the rules of their protocol.

use crate::stage::{LIMIT, Outcome, Stage, turns};
use std::{
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::Path,
};

/// What a socket of RFC 6455 is asked for.
fn upgrade(id: &str) -> String {
    format!(
        "GET /api/structured/{id}?deltas=text HTTP/1.1\r\nHost: maestro\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
}

/// A frame as it should be, but for what the test breaks: its first byte, the length that it states, its text.
fn frame(first: u8, stated: u64, text: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match stated {
        0..126 => frame.push(0x80 | u8::try_from(stated).unwrap_or_default()),
        126..65536 => {
            frame.push(0xfe);
            frame.extend(u16::try_from(stated).unwrap_or_default().to_be_bytes());
        }
        _ => {
            frame.push(0xff);
            frame.extend(stated.to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text);
    frame
}

fn whole(first: u8, text: &[u8]) -> Vec<u8> {
    frame(first, text.len() as u64, text)
}

/// Says `bytes` on a socket of the session and reads to its end; the code that the daemon closed with, if it said one.
fn closes_with(socket: &Path, id: &str, bytes: &[u8]) -> io::Result<Option<u16>> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(upgrade(id).as_bytes())?;
    let mut seen = Vec::new();
    while !seen.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        seen.push(byte[0]);
    }
    assert!(seen.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&seen));
    // It may have heard enough before all is said.
    let said = stream.write_all(bytes);
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Err(error) if error.kind() != io::ErrorKind::ConnectionReset => return Err(error),
        Ok(_) | Err(_) => {}
    }
    drop(said);
    // What a server sends has no mask: a close is 0x88, its length, its code.
    let close = rest.windows(4).rev().find(|window| window[0] == 0x88 && (2..126).contains(&window[1]));
    Ok(close.map(|close| u16::from_be_bytes([close[2], close[3]])))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_whose_client_breaks_the_rules_is_closed_with_the_reason() -> Outcome {
    let mut stage = Stage::open(turns(|turn| turn.chunk("well").end_turn())).await?;
    let check = async |what: &'static str, bytes: Vec<u8>, expect: Option<u16>| -> Outcome {
        let (socket, id) = (stage.daemon.socket(), stage.id.clone());
        let code = tokio::task::spawn_blocking(move || closes_with(&socket, &id, &bytes)).await??;
        assert_eq!(code, expect, "{what}");
        Ok(())
    };
    check("no mask", b"\x81\x02hi".to_vec(), Some(1002)).await?;
    check("a reserved bit", whole(0xc1, b"hi"), Some(1002)).await?;
    check("an opcode that is none", whole(0x83, b"hi"), Some(1002)).await?;
    check("a continuation of nothing", whole(0x80, b"hi"), Some(1002)).await?;
    check("a text inside of a text", [whole(0x01, b"hi"), whole(0x81, b"hi")].concat(), Some(1002)).await?;
    check("a ping in parts", whole(0x09, b"hi"), Some(1002)).await?;
    check("a long ping", whole(0x89, &[b'x'; 126]), Some(1002)).await?;
    check("no UTF-8", whole(0x81, b"\xff\xfe"), Some(1007)).await?;
    check("too long", whole(0x81, &vec![b'x'; 65_537]), Some(1009)).await?;
    check("a length that nothing has", frame(0x81, 1 << 62, b""), Some(1009)).await?;
    let parts = [whole(0x01, &[b'x'; 1024]), whole(0x00, &[b'x'; 1024]).repeat(70)].concat();
    check("parts without end", parts, Some(1009)).await?;
    let crumbs = whole(0x81, b"x").repeat(100_000);
    check("many crumbs, then a farewell", [crumbs, whole(0x88, b"\x03\xe8")].concat(), Some(1000)).await?;

    assert_eq!(stage.turn("go").await?, "end_turn", "nobody else noticed");
    Ok(())
}
