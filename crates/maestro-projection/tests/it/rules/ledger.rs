use super::{folded, update};
use serde_json::{Value, json};

fn clock(at: &str) -> String {
    json!({"maestroEvent": "clock", "at": at}).to_string()
}

fn turn(phase: &str, at: &str, input: u64) -> String {
    let mut line = json!({"maestroEvent": "turn", "phase": phase, "origin": "person", "at": at});
    if phase == "ended" {
        line["reason"] = "end_turn".into();
        line["usage"] = json!({"usage": {"inputTokens": input}});
    }
    line.to_string()
}

fn cost(amount: f64) -> String {
    update(json!({"sessionUpdate": "usage_update", "cost": {"amount": amount, "currency": "USD"}}))
}

/// The lines give these days: turns, input tokens, and dollars of each.
#[track_caller]
fn check(lines: &[String], expect: Value) {
    let projection = folded(lines);
    let days = projection.ledger().iter().map(|(day, spending)| {
        (day.to_string(), json!([spending.turns, spending.tokens.input, spending.cost.get("USD")]))
    });
    assert_eq!(Value::Object(days.collect()), expect);
}

#[test]
fn what_is_spent_belongs_to_the_day_on_which_it_was_told() {
    let (evening, morning) = ("2026-11-30T23:59:59.999Z", "2026-12-01T00:00:00Z");
    check(
        &[
            clock(evening),
            turn("started", evening, 0),
            cost(0.5),
            cost(0.75),
            clock(morning),
            cost(1.0),
            turn("ended", morning, 7),
            turn("started", morning, 0),
            turn("ended", morning, 8),
        ],
        json!({"2026-11-30": [0, 0, 0.75], "2026-12-01": [2, 15, 0.25]}),
    );
}

#[test]
fn an_end_without_a_turn_is_no_turn() {
    let at = "2026-12-01T00:00:00Z";
    check(&[turn("ended", at, 7)], json!({}));
    check(
        &[turn("started", at, 0), turn("ended", at, 7), turn("ended", at, 7)],
        json!({"2026-12-01": [1, 7, null]}),
    );
}

#[test]
fn before_the_first_time_nothing_can_be_booked() {
    check(&[cost(0.5), clock("2026-12-01T00:00:00Z"), cost(0.75)], json!({"2026-12-01": [0, 0, 0.25]}));
}
