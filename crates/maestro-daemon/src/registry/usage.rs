//! What an account's sessions spent, summed up by day and agent (CONTRACT §6.6).

use super::{Registry, Request};
use crate::{
    account::AccountScope,
    session::{Ledger, SessionError},
};
use maestro_protocol::{AgentKey, Day, DayUsage, SessionId, Spending, UsageQuery, UsageReport};
use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

/// What one session spent.
pub(super) struct SessionLedger {
    pub(super) id: SessionId,
    pub(super) agent: AgentKey,
    /// `None` if its log was never read for it.
    pub(super) ledger: Option<Arc<Ledger>>,
}

impl Registry {
    /// What the account's sessions spent. Sessions that an earlier version left without a count are read now, one
    /// after the other; their sidecars hold the count from then on.
    pub(crate) async fn usage(
        &self,
        scope: &AccountScope,
        query: UsageQuery,
    ) -> Result<UsageReport, SessionError> {
        let mut uncounted = Vec::new();
        for session in self.ledgers(scope).await? {
            if session.ledger.is_none() {
                uncounted.push(session.id);
            }
        }
        for id in uncounted {
            if let Some(session) = self.handle(scope, id).await? {
                session.counted().await;
            }
        }
        Ok(sum_up(&self.ledgers(scope).await?, query))
    }

    async fn ledgers(&self, scope: &AccountScope) -> Result<Vec<SessionLedger>, SessionError> {
        let scope = scope.clone();
        self.ask(|reply| Request::Ledgers { scope, reply }).await
    }
}

fn sum_up(sessions: &[SessionLedger], query: UsageQuery) -> UsageReport {
    let mut sums = BTreeMap::<(Reverse<Day>, AgentKey), Spending>::new();
    let is_wanted = |day: Day| {
        query.since.is_none_or(|since| since <= day) && query.until.is_none_or(|until| day <= until)
    };
    let mut uncounted_sessions = 0;
    for SessionLedger { agent, ledger, .. } in sessions {
        let Some(ledger) = ledger else {
            uncounted_sessions += 1;
            continue;
        };
        for (day, spending) in ledger.iter().filter(|(day, _)| is_wanted(**day)) {
            sums.entry((Reverse(*day), agent.clone())).or_default().add(spending);
        }
    }
    let usage = sums.into_iter().map(|((Reverse(day), agent), spending)| DayUsage { day, agent, spending });
    UsageReport { usage: usage.collect(), uncounted_sessions }
}

#[cfg(test)]
mod tests {
    use super::{SessionLedger, sum_up};
    use maestro_protocol::{Cost, Day, SessionId, Spending, Tokens, UsageQuery};
    use std::sync::Arc;
    use uuid::Uuid;

    fn day(text: &str) -> Day {
        text.parse().expect("a day")
    }

    fn spent(input: u64, usd: f64) -> Spending {
        let tokens = Tokens { input, ..Tokens::default() };
        let mut spending = Spending { turns: 1, tokens, ..Spending::default() };
        spending.pay(Cost { amount: usd, currency: "USD".into() });
        spending
    }

    fn session(agent: &str, days: &[(&str, Spending)]) -> SessionLedger {
        let ledger = days.iter().map(|(text, spending)| (day(text), spending.clone())).collect();
        let agent = agent.parse().expect("a key");
        SessionLedger { id: SessionId::from_uuid(Uuid::nil()), agent, ledger: Some(Arc::new(ledger)) }
    }

    #[track_caller]
    fn check(query: UsageQuery, expect: &[(&str, &str, u64, u64, f64)]) {
        let mut sessions = vec![
            session("a", &[("2026-11-30", spent(1, 0.25)), ("2026-12-01", spent(2, 0.5))]),
            session("b", &[("2026-12-01", spent(4, 1.0))]),
            session("a", &[("2026-12-01", spent(8, 2.0)), ("2026-12-02", spent(16, 4.0))]),
        ];
        sessions.push(SessionLedger { ledger: None, ..session("a", &[]) });
        let report = sum_up(&sessions, query);
        let got = report.usage.iter().map(|entry| {
            let Spending { turns, tokens, cost } = &entry.spending;
            (entry.day.to_string(), entry.agent.to_string(), *turns, tokens.input, cost["USD"])
        });
        let expect = expect
            .iter()
            .map(|(day, agent, turns, input, usd)| ((*day).into(), (*agent).into(), *turns, *input, *usd));
        assert_eq!(got.collect::<Vec<(String, String, _, _, _)>>(), expect.collect::<Vec<_>>());
        assert_eq!(report.uncounted_sessions, 1);
    }

    #[test]
    fn usage_is_summed_up_by_day_and_agent() {
        let all = UsageQuery::default();
        check(
            all,
            &[
                ("2026-12-02", "a", 1, 16, 4.0),
                ("2026-12-01", "a", 2, 10, 2.5),
                ("2026-12-01", "b", 1, 4, 1.0),
                ("2026-11-30", "a", 1, 1, 0.25),
            ],
        );
        let (since, until) = (Some(day("2026-12-01")), Some(day("2026-12-01")));
        check(
            UsageQuery { since, until },
            &[("2026-12-01", "a", 2, 10, 2.5), ("2026-12-01", "b", 1, 4, 1.0)],
        );
        check(UsageQuery { since: Some(day("2026-12-02")), ..all }, &[("2026-12-02", "a", 1, 16, 4.0)]);
        check(UsageQuery { until: Some(day("2026-11-30")), ..all }, &[("2026-11-30", "a", 1, 1, 0.25)]);
    }
}
