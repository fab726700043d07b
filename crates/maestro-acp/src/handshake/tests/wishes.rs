//! What is asked of an agent before its session is open: mode, model, options.

use super::*;

fn modes(current: &str) -> Value {
    let modes = json!([{"id": "default", "name": "Default"}, {"id": "auto", "name": "Auto"}]);
    json!({"modes": {"currentModeId": current, "availableModes": modes}})
}

#[tokio::test(start_paused = true)]
async fn a_wished_mode_is_set_unless_it_is_in_force() {
    let Shaken { opened, .. } = shake("qwen", fresh(), Some("default"), |mut agent| async move {
        agent.opened(modes("auto")).await;
        let (id, params) = agent.asked("session/set_mode").await;
        assert_eq!(params, json!({"sessionId": "s", "modeId": "default"}));
        agent.update("current_mode_update", "mode").await;
        agent.answer(id, json!({})).await;
    })
    .await;
    let opened = opened.unwrap();
    assert_eq!(settings(&opened), Ok(vec![mode("default")]));
    assert_eq!(opened.modes.unwrap()["currentModeId"], "auto", "what the opening said is kept");
    assert_eq!(texts(&opened.kept), ["mode"]);

    let Shaken { opened, rest, .. } = shake("qwen", fresh(), Some("auto"), |mut agent| async move {
        agent.opened(modes("auto")).await;
        assert!(timeout(Duration::from_secs(1), agent.hear()).await.is_err());
    })
    .await;
    assert_eq!(settings(&opened.unwrap()), Ok(vec![mode("auto")]));
    assert_eq!(rest, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_agent_with_modes_as_an_option_is_asked_by_the_option() {
    let options = |current: &str| {
        let modes = json!([{"value": "build", "name": "build"}, {"value": "plan", "name": "plan"}]);
        json!([{"id": "mode", "category": "mode", "type": "select", "currentValue": current, "options": modes}])
    };
    let (before, after) = (options("build"), options("plan"));
    let expect = (Some(before.clone()), Some(after.clone()));
    let Shaken { opened, .. } = shake("opencode", fresh(), Some("plan"), |mut agent| async move {
        agent.opened(json!({"configOptions": before})).await;
        let (id, params) = agent.asked("session/set_config_option").await;
        assert_eq!(params, json!({"sessionId": "s", "configId": "mode", "value": "plan"}));
        agent.answer(id, json!({"configOptions": after})).await;
    })
    .await;
    let opened = opened.unwrap();
    assert_eq!(settings(&opened), Ok(vec![mode("plan")]));
    let told = opened.settled[0].as_ref().unwrap().config_options.clone();
    assert_eq!((opened.config_options, told), expect);
}

#[tokio::test(start_paused = true)]
async fn a_refused_mode_is_told_and_the_session_is_open() {
    let Shaken { opened, .. } = shake("demo", fresh(), Some("default"), |mut agent| async move {
        agent.opened(modes("auto")).await;
        let (id, _) = agent.asked("session/set_mode").await;
        agent.fail(id, json!({"code": -32602, "message": "Invalid mode"})).await;
    })
    .await;
    let refused = settings(&opened.unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "the agent refused the mode `default` with error -32602: Invalid mode");

    let Shaken { opened, .. } =
        shake("demo", fresh(), Some("yolo"), |mut agent| async move { agent.opened(modes("auto")).await })
            .await;
    let refused = settings(&opened.unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "the agent does not offer the mode `yolo`; it has default, auto");

    let Shaken { opened, .. } =
        shake("demo", fresh(), Some("yolo"), |mut agent| async move { agent.opened(json!({})).await }).await;
    let refused = settings(&opened.unwrap()).unwrap_err();
    assert_eq!(refused.to_string(), "the agent does not offer the mode `yolo`; it has no modes");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_does_not_answer_about_the_mode_does_not_hold_the_session() {
    for (delay, waits) in [(0, 10), (55, 5)] {
        let Shaken { opened, took, rest } =
            shake("demo", fresh(), Some("default"), move |mut agent| async move {
                sleep(Duration::from_secs(delay)).await;
                agent.opened(modes("auto")).await;
                let (id, _) = agent.asked("session/set_mode").await;
                sleep(Duration::from_secs(20)).await;
                agent.answer(id, json!({})).await;
            })
            .await;
        assert_eq!(took, Duration::from_secs(delay + waits));
        assert_eq!(settings(&opened.unwrap()), Err(SettingRefused::NoAnswer { wish: mode("default") }));
        assert_eq!(rest, ["response 3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loaded_session_gets_its_mode_after_the_replay() {
    let Shaken { opened, .. } = shake("gemini", load(), Some("default"), |mut agent| async move {
        let id = agent.loading().await;
        agent.answer(id, modes("auto")).await;
        agent.update("agent_message_chunk", "late history").await;
        let (id, _) = agent.asked("session/set_mode").await;
        agent.update("agent_message_chunk", "live").await;
        agent.answer(id, json!({})).await;
    })
    .await;
    let opened = opened.unwrap();
    assert_eq!(settings(&opened), Ok(vec![mode("default")]));
    assert_eq!(texts(&opened.kept), ["live"]);
}

#[tokio::test(start_paused = true)]
async fn wishes_are_asked_one_after_the_other_and_a_refused_one_keeps_none_back() {
    let (mut connection, mut agent) = connect();
    let part = tokio::spawn(async move {
        let select = |id: &str, category: &str| json!({"id": id, "category": category, "type": "select", "currentValue": "a", "options": [{"value": "a"}, {"value": "b"}]});
        let options = json!([select("model", "model"), select("effort", "thought_level")]);
        agent.opened(json!({"configOptions": options})).await;
        let (id, params) = agent.asked("session/set_config_option").await;
        assert_eq!(params, json!({"sessionId": "s", "configId": "model", "value": "b"}));
        // The effort is another by itself with the other model.
        let mut after = options;
        after[1]["currentValue"] = json!("b");
        agent.answer(id, json!({"configOptions": after})).await;
    });
    let option = |value: &str| Setting::Option { id: "effort".into(), value: ConfigValue::Id(value.into()) };
    let model = Setting::Model("b".into());
    let wishes = vec![mode("ask"), model.clone(), option("b"), option("c")];
    let opened = open(&mut connection, &entry("opencode"), fresh(), wishes).await.unwrap();
    part.await.unwrap();
    let settled: Vec<_> = opened
        .settled
        .into_iter()
        .map(|settled| settled.map(|settled| settled.setting).map_err(|refused| refused.wish().clone()))
        .collect();
    assert_eq!(settled, [Err(mode("ask")), Ok(model), Ok(option("b")), Err(option("c"))]);
}
