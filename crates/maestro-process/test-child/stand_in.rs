//! A stand-in for the daemon: the real spawn thread in a process that a test may kill.

use crate::{Outcome, raw};
use maestro_process::{GuardProgram, Marker, ProcessDefaults, SpawnRequest, Spawner, session_environment};
use maestro_protocol::SessionId;
use rustix::{
    fs::Mode,
    io::{FdFlags, fcntl_setfd},
    process::{Resource, Rlimit, getrlimit, setrlimit, umask},
};
use std::{
    collections::BTreeMap,
    env, fs, future,
    io::{self, Write as _},
};
use tokio::io::AsyncReadExt as _;
use uuid::Uuid;

pub(crate) fn run(args: &[&str]) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args {
        // Starts the agent, says so with the record's JSON, and stays.
        ["keep", agent @ ..] => {
            let spawner = Spawner::start(GuardProgram::this_executable()?, ProcessDefaults::replace())?;
            runtime.block_on(async {
                let child = spawner.spawn(request(agent)?).await?;
                writeln!(io::stdout(), "{}", serde_json::to_string(&child.record)?)?;
                future::pending::<()>().await;
                drop(child);
                Ok(())
            })
        }
        // In a process that holds what no agent may get: passes on what the agent says.
        ["relay", agent @ ..] => {
            raw::watch_forks()?;
            raw::ignore_requests_to_end();
            umask(Mode::from_bits_truncate(0o027));
            let maximum = getrlimit(Resource::Nofile).maximum;
            setrlimit(Resource::Nofile, Rlimit { current: Some(300), maximum })?;
            let leaked = fs::File::open(env::current_exe()?)?;
            fcntl_setfd(&leaked, FdFlags::empty())?;
            let spawner = Spawner::start(GuardProgram::this_executable()?, ProcessDefaults::replace())?;
            let said = runtime.block_on(async {
                let mut child = spawner.spawn(request(agent)?).await?;
                let mut said = Vec::new();
                child.stdout.read_to_end(&mut said).await?;
                child.exit.gone().await;
                Ok::<_, Box<dyn std::error::Error>>(said)
            })?;
            drop(leaked);
            let own = getrlimit(Resource::Nofile);
            let raised =
                own.current == own.maximum && umask(Mode::empty()) == Mode::from_bits_truncate(0o077);
            let mut out = io::stdout();
            out.write_all(&said)?;
            writeln!(out, "daemon has forked {}", raw::has_forked())?;
            Ok(writeln!(out, "daemon has its own values {raised}")?)
        }
        _ => Err("unknown mode".into()),
    }
}

fn request(agent: &[&str]) -> Result<SpawnRequest, io::Error> {
    // A first argument with a slash is a program of its own.
    let (program, args) = match agent {
        [program, args @ ..] if program.starts_with('/') => (program.into(), args),
        args => (env::current_exe()?, args),
    };
    Ok(SpawnRequest {
        program,
        args: args.iter().map(Into::into).collect(),
        cwd: "/tmp".into(),
        env: session_environment(env::vars_os(), &[], &BTreeMap::new()),
        marker: Marker { session: SessionId::from_uuid(Uuid::new_v4()), token: Uuid::new_v4() },
        grace_ms: 200,
    })
}
