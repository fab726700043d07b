//! What a line spent (CONTRACT §6.6).

use maestro_protocol::{Cost, Spending, Tokens};
use serde_json::Value;

/// Clients read numbers as doubles: integers from here on are not exact there.
const NOT_EXACT: u64 = 1 << 53;

/// A turn that ended, with the tokens that its agent told. `usage` is what the turn line holds: the prompt result's
/// `usage`, and `_meta.quota` as `quota`.
pub(super) fn turn(usage: Option<&Value>) -> Spending {
    let count =
        |object: Option<&Value>, key: &str| object?.get(key)?.as_u64().filter(|tokens| *tokens < NOT_EXACT);
    let of = |key| usage.and_then(|usage| usage.get(key));
    let (told, quota) = (of("usage"), of("quota").and_then(|quota| quota.get("token_count")));
    let either = |key, quota_key| count(told, key).or_else(|| count(quota, quota_key)).unwrap_or(0);
    let tokens = Tokens {
        input: either("inputTokens", "input_tokens"),
        output: either("outputTokens", "output_tokens"),
        cached_read: count(told, "cachedReadTokens").unwrap_or(0),
        cached_write: count(told, "cachedWriteTokens").unwrap_or(0),
        thought: count(told, "thoughtTokens").unwrap_or(0),
    };
    Spending { turns: 1, tokens, ..Spending::default() }
}

/// What an agent's cumulative cost tells to have been spent since it told it last. A sum that is lower, or in another
/// currency, is that of a new count: agents begin at zero with each process, or go on.
pub(super) fn cost(before: Option<&Cost>, now: &Cost) -> Option<Spending> {
    let counted = before.filter(|before| before.currency == now.currency && before.amount <= now.amount);
    let amount = now.amount - counted.map_or(0.0, |before| before.amount);
    let mut spending = Spending::default();
    spending.pay(Cost { amount, currency: now.currency.clone() });
    Some(spending).filter(|_| amount > 0.0)
}

#[cfg(test)]
mod tests {
    use super::{cost, turn};
    use maestro_protocol::{Cost, Tokens};
    use serde_json::{Value, json};

    #[track_caller]
    fn check(usage: &Value, input: u64, output: u64, rest: [u64; 3]) {
        let [cached_read, cached_write, thought] = rest;
        let spending = turn(Some(usage));
        assert_eq!(spending.tokens, Tokens { input, output, cached_read, cached_write, thought });
        assert_eq!((spending.turns, spending.cost.len()), (1, 0));
    }

    #[test]
    fn a_turns_tokens_are_taken_as_its_agent_tells_them() {
        check(
            &json!({"usage": {"inputTokens": 5, "outputTokens": 7, "cachedReadTokens": 2, "cachedWriteTokens": 3,
                              "thoughtTokens": 4, "totalTokens": 17}}),
            5,
            7,
            [2, 3, 4],
        );
        check(
            &json!({"quota": {"token_count": {"input_tokens": 24282, "output_tokens": 35}}}),
            24282,
            35,
            [0; 3],
        );
        check(
            &json!({"usage": {"inputTokens": 1.5, "outputTokens": -7, "thoughtTokens": 1_u64 << 53}}),
            0,
            0,
            [0; 3],
        );
        check(&json!({"usage": "much"}), 0, 0, [0; 3]);
        check(&json!(null), 0, 0, [0; 3]);
        assert_eq!(turn(None).turns, 1);
    }

    #[test]
    fn a_cumulative_cost_is_spent_once() {
        let usd = |amount| Cost { amount, currency: "USD".into() };
        let check = |before: Option<Cost>, now: f64, spent: Option<f64>| {
            let spending = cost(before.as_ref(), &usd(now));
            assert_eq!(spending.map(|spending| spending.cost["USD"]), spent);
        };
        check(None, 0.5, Some(0.5));
        check(Some(usd(0.5)), 0.75, Some(0.25));
        check(Some(usd(0.5)), 0.5, None);
        check(Some(usd(0.5)), 0.25, Some(0.25));
        check(Some(Cost { amount: 0.5, currency: "EUR".into() }), 0.75, Some(0.75));
        check(None, 0.0, None);
        check(None, -1.0, None);
    }
}
