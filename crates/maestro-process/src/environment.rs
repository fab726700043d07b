use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
};

const NAMES: [&str; 11] = [
    "HOME",
    "PATH",
    "LANG",
    "TERM",
    "TZ",
    "SHELL",
    "USER",
    "LOGNAME",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "NODE_EXTRA_CA_CERTS",
];
const PREFIXES: [&str; 3] = ["LC_", "XDG_", "SSL_CERT_"];
/// In either case: `http_proxy` and `HTTPS_PROXY` are both in use.
const SUFFIX: &[u8] = b"_proxy";

/// The environment of an agent (CONTRACT §2.4): of `base`, the daemon's own environment, only the allow-list
/// and the names its entry in the agent table allows (exact, or a prefix and `*`); over that the variables of the request, which win.
/// Sorted by name, each name once.
pub fn session_environment(
    base: impl IntoIterator<Item = (OsString, OsString)>,
    agent_allowed: &[String],
    request_env: &BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let mut environment: BTreeMap<OsString, OsString> =
        base.into_iter().filter(|(name, _)| is_allowed(name, agent_allowed)).collect();
    environment.extend(request_env.iter().map(|(name, value)| (name.into(), value.into())));
    environment.into_iter().collect()
}

fn is_allowed(name: &OsStr, agent_allowed: &[String]) -> bool {
    let bytes = name.as_bytes();
    NAMES.iter().any(|allowed| name == *allowed)
        || PREFIXES.iter().any(|prefix| bytes.starts_with(prefix.as_bytes()))
        || bytes.len().checked_sub(SUFFIX.len()).is_some_and(|at| bytes[at..].eq_ignore_ascii_case(SUFFIX))
        || agent_allowed.iter().any(|allowed| match allowed.strip_suffix('*') {
            Some(prefix) => bytes.starts_with(prefix.as_bytes()),
            None => name == allowed.as_str(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(base: &[(&str, &str)], agent: &[&str], request: &[(&str, &str)], expect: &[(&str, &str)]) {
        let own = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
        };
        let agent: Vec<String> = agent.iter().map(ToString::to_string).collect();
        let request = request.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        assert_eq!(session_environment(own(base), &agent, &request), own(expect));
    }

    #[test]
    fn only_the_allow_list_passes() {
        for name in [
            "HOME",
            "PATH",
            "LANG",
            "LC_ALL",
            "LC_TIME",
            "TERM",
            "TZ",
            "SHELL",
            "USER",
            "LOGNAME",
            "TMPDIR",
            "XDG_CONFIG_HOME",
            "XDG_RUNTIME_DIR",
            "SSH_AUTH_SOCK",
            "http_proxy",
            "HTTPS_PROXY",
            "no_proxy",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "NODE_EXTRA_CA_CERTS",
        ] {
            check(&[(name, "v")], &[], &[], &[(name, "v")]);
        }
        for name in [
            "AWS_SECRET_ACCESS_KEY",
            "ANTHROPIC_API_KEY",
            "DATABASE_URL",
            "DATA_PATH",
            "LD_PRELOAD",
            "HOMEX",
            "XHOME",
            "PATH2",
            "home",
            "LC",
            "XDG",
            "SSL_KEY",
            "proxy",
            "http_proxy_password",
            "NODE_OPTIONS",
            "MAESTRO_SPAWN",
            "",
        ] {
            check(&[(name, "secret")], &[], &[], &[]);
        }
    }

    #[test]
    fn an_agent_entry_allows_exact_names_and_prefixes() {
        let base = [("OPENAI_API_KEY", "k"), ("OPENAI_API_KEY_2", "k")];
        check(&base, &["OPENAI_API_KEY"], &[], &[("OPENAI_API_KEY", "k")]);
        check(&base, &["OPENAI_*"], &[], &base);
        check(&base, &["OPENAI_API_KEY_3*", "PENAI*", "_*"], &[], &[]);
    }

    #[test]
    fn the_request_adds_and_wins() {
        check(
            &[("PATH", "/usr/bin"), ("HOME", "/h"), ("SECRET", "s")],
            &[],
            &[("PATH", "/mine"), ("EXTRA", "")],
            &[("EXTRA", ""), ("HOME", "/h"), ("PATH", "/mine")],
        );
    }
}
