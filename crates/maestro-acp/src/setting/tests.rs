use super::{Ask, Offers, Plan, Setting, plan};
use maestro_protocol::ConfigValue;
use serde_json::{Value, json};

fn option(id: &str, value: &str) -> Ask {
    Ask::SetOption { id: id.into(), value: ConfigValue::Id(value.into()) }
}

fn not_offered(offered: &[&str]) -> Plan {
    Plan::NotOffered(offered.iter().map(|one| (*one).to_owned()).collect())
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a table of values reads best without references")]
fn check_mode(modes: Option<Value>, options: Option<Value>, expect: Plan) {
    let offers = Offers { modes: modes.as_ref(), models: None, config_options: options.as_ref() };
    assert_eq!(plan(&Setting::Mode("ask".into()), offers), expect);
}

fn ask() -> Ask {
    Ask::SetMode("ask".into())
}

#[test]
fn modes_are_set_by_their_own_request() {
    let modes = |current: &str, ids: &[&str]| {
        let available: Vec<_> = ids.iter().map(|id| json!({"id": id, "name": id})).collect();
        Some(json!({"currentModeId": current, "availableModes": available}))
    };
    check_mode(modes("ask", &["ask", "auto"]), None, Plan::InForce(ask()));
    check_mode(modes("ask", &[]), None, Plan::InForce(ask()));
    check_mode(modes("auto", &["ask", "auto"]), None, Plan::Ask(ask()));
    check_mode(modes("auto", &["auto"]), None, not_offered(&["auto"]));
    check_mode(modes("auto", &[]), None, Plan::Ask(ask()));
    check_mode(Some(json!({"availableModes": "?"})), None, Plan::Ask(ask()));
    check_mode(Some(json!(7)), None, Plan::Ask(ask()));
    let option = json!([{"id": "mode", "category": "mode", "type": "select", "currentValue": "ask"}]);
    check_mode(modes("auto", &["ask", "auto"]), Some(option), Plan::Ask(ask()));
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
    check_mode(None, options("ask", flat.clone()), Plan::InForce(option("m", "ask")));
    check_mode(None, options("build", flat), Plan::Ask(option("m", "ask")));
    check_mode(None, options("build", grouped), Plan::Ask(option("m", "ask")));
    check_mode(None, options("build", json!([{"value": "build"}])), not_offered(&["build"]));
}

#[test]
fn an_agent_without_modes_is_not_asked() {
    check_mode(None, None, not_offered(&[]));
    check_mode(None, Some(json!([])), not_offered(&[]));
    check_mode(None, Some(json!({"id": "mode"})), not_offered(&[]));
}

#[test]
fn models_are_set_as_modes_are() {
    let check = |models: Option<Value>, options: Option<Value>, expect: Plan| {
        let offers = Offers { modes: None, models: models.as_ref(), config_options: options.as_ref() };
        assert_eq!(plan(&Setting::Model("opus".into()), offers), expect);
    };
    let ask = || Ask::SetModel("opus".into());
    let models = |current: &str| json!({"currentModelId": current, "availableModels": [{"modelId": "opus"}, {"modelId": "haiku"}]});
    let options = json!([{"id": "llm", "category": "model", "type": "select", "currentValue": "haiku",
        "options": [{"value": "haiku"}, {"value": "opus"}]}]);
    check(Some(models("haiku")), Some(options.clone()), Plan::Ask(ask()));
    check(Some(models("opus")), None, Plan::InForce(ask()));
    check(None, Some(options), Plan::Ask(option("llm", "opus")));
    check(
        Some(json!({"currentModelId": "x", "availableModels": [{"modelId": "x"}]})),
        None,
        not_offered(&["x"]),
    );
    check(None, None, not_offered(&[]));
}

#[test]
fn an_option_takes_the_values_of_its_own_kind() {
    let options = json!([
        {"id": "effort", "type": "select", "currentValue": "low", "options": [{"value": "low"}, {"value": "high"}]},
        {"id": "fast", "type": "boolean", "currentValue": true},
        {"id": "odd", "type": "of_tomorrow"},
    ]);
    let check = |id: &str, value: ConfigValue, expect: fn(Ask) -> Plan| {
        let offers = Offers { config_options: Some(&options), ..Offers::default() };
        let wish = Setting::Option { id: id.into(), value: value.clone() };
        assert_eq!(plan(&wish, offers), expect(Ask::SetOption { id: id.into(), value }), "{id}");
    };
    let text = |text: &str| ConfigValue::Id(text.into());
    check("effort", text("high"), Plan::Ask);
    check("effort", text("low"), Plan::InForce);
    check("effort", text("huge"), |_| not_offered(&["low", "high"]));
    check("effort", ConfigValue::Flag(true), |_| not_offered(&["low", "high"]));
    check("fast", ConfigValue::Flag(false), Plan::Ask);
    check("fast", ConfigValue::Flag(true), Plan::InForce);
    check("fast", text("true"), |_| not_offered(&["true", "false"]));
    check("odd", text("x"), Plan::Ask);
    check("none", text("x"), |_| not_offered(&["effort", "fast", "odd"]));
}

#[test]
fn only_an_options_answer_holds_a_set_of_options() {
    let check =
        |ask: &Ask, answer: &Value, expect: Option<Value>| assert_eq!(ask.config_options(answer), expect);
    check(&option("m", "x"), &json!({"configOptions": [1]}), Some(json!([1])));
    check(&option("m", "x"), &json!({"configOptions": 7}), None);
    check(&option("m", "x"), &json!(null), None);
    check(&ask(), &json!({"configOptions": [1]}), None);
}
