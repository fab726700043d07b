use maestro_protocol::{Decision, PermissionOption, PermissionOptionKind};

/// What a decision means for a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Answer with the option of this id.
    Select(String),
    /// Answer that the request is cancelled: it is denied, and the agent offers no way to say so.
    Cancelled,
    /// The request does not offer the decision; nothing may be answered.
    NotOffered,
}

/// Maps a person's decision to the agent's options (CONTRACT §7.4). Chooses by what an option means and only where
/// exactly one means it: never a wider one, never by position.
pub fn choose(options: &[PermissionOption], decision: &Decision) -> Choice {
    use PermissionOptionKind as Kind;
    let selected = |option: Option<&PermissionOption>, otherwise| {
        option.map_or(otherwise, |option| Choice::Select(option.option_id.clone()))
    };
    match decision {
        Decision::AllowOnce => selected(only(options, Kind::AllowOnce), Choice::NotOffered),
        Decision::AllowForSession => selected(only(options, Kind::AllowAlways), Choice::NotOffered),
        Decision::Deny => selected(refusal(options), Choice::Cancelled),
        Decision::Option(id) => selected(by_id(options, id), Choice::NotOffered),
    }
}

/// The decisions that a request can take, `Deny` always among them.
pub fn offered(options: &[PermissionOption]) -> Vec<Decision> {
    let decisions = [Decision::AllowOnce, Decision::AllowForSession, Decision::Deny];
    decisions.into_iter().filter(|decision| choose(options, decision) != Choice::NotOffered).collect()
}

/// The one-shot refusal; a permanent one only where it is the sole refusal.
fn refusal(options: &[PermissionOption]) -> Option<&PermissionOption> {
    use PermissionOptionKind as Kind;
    let has_once = options.iter().any(|option| option.kind == Kind::RejectOnce);
    only(options, if has_once { Kind::RejectOnce } else { Kind::RejectAlways })
}

/// The only option of `kind`, if its id is its own.
fn only(options: &[PermissionOption], kind: PermissionOptionKind) -> Option<&PermissionOption> {
    let mut of_kind = options.iter().filter(|option| option.kind == kind);
    let option = of_kind.next()?;
    if of_kind.next().is_some() { None } else { by_id(options, &option.option_id) }
}

/// The option of this id, unless several have it: then nobody knows which of them the agent would take.
fn by_id<'a>(options: &'a [PermissionOption], id: &str) -> Option<&'a PermissionOption> {
    let mut of_id = options.iter().filter(|option| option.option_id == id);
    let option = of_id.next()?;
    if of_id.next().is_some() { None } else { Some(option) }
}

#[cfg(test)]
mod tests;
