use super::{Step, step};
use serde_json::{Value, json};

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a table of values reads best without references")]
fn check(modes: Option<Value>, options: Option<Value>, expect: Step) {
    assert_eq!(step(modes.as_ref(), options.as_ref(), "ask"), expect);
}

#[test]
fn modes_are_set_by_their_own_request() {
    let modes = |current: &str, ids: &[&str]| {
        let available: Vec<_> = ids.iter().map(|id| json!({"id": id, "name": id})).collect();
        Some(json!({"currentModeId": current, "availableModes": available}))
    };
    check(modes("ask", &["ask", "auto"]), None, Step::InForce);
    check(modes("ask", &[]), None, Step::InForce);
    check(modes("auto", &["ask", "auto"]), None, Step::SetMode);
    check(modes("auto", &["auto"]), None, Step::NotOffered(vec!["auto".into()]));
    check(modes("auto", &[]), None, Step::SetMode);
    check(Some(json!({"availableModes": "?"})), None, Step::SetMode);
    check(Some(json!(7)), None, Step::SetMode);
    let option = json!([{"id": "mode", "category": "mode", "type": "select", "currentValue": "ask"}]);
    check(modes("auto", &["ask", "auto"]), Some(option), Step::SetMode);
}

#[test]
fn an_agent_with_modes_only_as_an_option_gets_the_option() {
    let options = |current: &str, entries: Value| {
        Some(json!([
            {"id": "model", "category": "model", "type": "select", "currentValue": "ask", "options": []},
            {"id": "mode-flag", "category": "mode", "type": "boolean", "currentValue": false},
            {"id": "m", "category": "mode", "type": "select", "currentValue": current, "options": entries},
        ]))
    };
    let flat = json!([{"value": "build", "name": "build"}, {"value": "ask", "name": "ask"}]);
    let grouped = json!([{"group": "g", "name": "G", "options": flat}]);
    check(None, options("ask", flat.clone()), Step::InForce);
    check(None, options("build", flat), Step::SetOption("m".into()));
    check(None, options("build", grouped), Step::SetOption("m".into()));
    check(None, options("build", json!([{"value": "build"}])), Step::NotOffered(vec!["build".into()]));
}

#[test]
fn an_agent_without_modes_is_not_asked() {
    check(None, None, Step::NotOffered(vec![]));
    check(None, Some(json!([])), Step::NotOffered(vec![]));
    check(None, Some(json!({"id": "mode"})), Step::NotOffered(vec![]));
}
