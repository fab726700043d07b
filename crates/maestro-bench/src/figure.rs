//! Figures, their goals, and the table of both. Pure.

use serde_json::{Value, json};
use std::fmt;

/// What a value is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Bound {
    /// How many times the value misses the bound; 1 or less is a goal that is met.
    fn missed_by(self, value: f64) -> f64 {
        match self {
            Self::AtMost(bound) if bound > 0.0 => value / bound,
            Self::AtLeast(bound) if value > 0.0 => bound / value,
            Self::AtMost(bound) if value <= bound => 1.0,
            Self::AtMost(_) | Self::AtLeast(_) => f64::INFINITY,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "≤ {}", short(*bound)),
            Self::AtLeast(bound) => write!(f, "≥ {}", short(*bound)),
        }
    }
}

/// A floor that was measured in the same run, and what the ratio of the figure to it is to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Floor {
    pub(crate) what: &'static str,
    pub(crate) value: f64,
    pub(crate) bound: Option<Bound>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    pub(crate) goal: &'static str,
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// What the value itself is to be, on the machine for which the goal was set when that is quiet.
    pub(crate) bound: Option<Bound>,
    pub(crate) floor: Option<Floor>,
}

impl Figure {
    pub(crate) fn new(goal: &'static str, what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { goal, what: what.into(), value, unit, bound: None, floor: None }
    }

    pub(crate) fn at_most(self, bound: f64) -> Self {
        Self { bound: Some(Bound::AtMost(bound)), ..self }
    }

    pub(crate) fn at_least(self, bound: f64) -> Self {
        Self { bound: Some(Bound::AtLeast(bound)), ..self }
    }

    pub(crate) fn beside(self, what: &'static str, value: f64, bound: Option<Bound>) -> Self {
        Self { floor: Some(Floor { what, value, bound }), ..self }
    }

    fn ratio(&self) -> Option<f64> {
        self.floor.as_ref().filter(|floor| floor.value > 0.0).map(|floor| self.value / floor.value)
    }

    /// How many times the goal is missed; `None` for a figure without a goal. The ratio is judged where it has a goal:
    /// a slow hour of the machine slows the floor too.
    fn missed_by(&self) -> Option<f64> {
        let by_ratio = self.floor.as_ref().and_then(|floor| Some((floor.bound?, self.ratio()?)));
        let (bound, value) = by_ratio.or_else(|| Some((self.bound?, self.value)))?;
        Some(bound.missed_by(value))
    }

    /// Whether something is lost that should not be: a count and no time.
    fn is_loss(&self) -> bool {
        self.unit.is_empty() && self.bound == Some(Bound::AtMost(0.0)) && self.value > 0.0
    }

    fn verdict(&self) -> String {
        match self.missed_by() {
            None => "–".into(),
            Some(by) if by <= 1.0 => "met".into(),
            Some(by) if by.is_finite() => format!("missed by {}x", short(by)),
            Some(_) => "missed".into(),
        }
    }

    fn cells(&self) -> [String; 8] {
        let floor = self.floor.as_ref();
        let bound_of_ratio = floor.and_then(|floor| floor.bound);
        [
            self.goal.into(),
            self.what.clone(),
            format!("{} {}", short(self.value), self.unit),
            self.bound.map(|bound| bound.to_string()).unwrap_or_default(),
            floor.map(|floor| format!("{}: {}", floor.what, short(floor.value))).unwrap_or_default(),
            self.ratio().map(|ratio| format!("{}x", short(ratio))).unwrap_or_default(),
            bound_of_ratio.map(|bound| format!("{bound}x")).unwrap_or_default(),
            self.verdict(),
        ]
    }

    fn json(&self) -> Value {
        json!({
            "goal": self.goal, "what": self.what, "value": self.value, "unit": self.unit,
            "floor": self.floor.as_ref().map(|floor| json!({"what": floor.what, "value": floor.value})),
            "ratio": self.ratio(), "missed_by": self.missed_by(),
        })
    }
}

/// Three digits, which is more than a run repeats.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{:.2} M", value / 1e6)
    } else if size >= 1e4 {
        format!("{:.0} k", value / 1e3)
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.1 || size == 0.0 {
        let text = format!("{value:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:.2e}")
    }
}

const HEAD: [&str; 8] = ["goal", "what", "measured", "wanted", "floor", "ratio", "wanted", "verdict"];

/// All figures of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) figures: Vec<Figure>,
}

impl Report {
    /// What was lost, which no slow machine excuses.
    pub(crate) fn losses(&self) -> Vec<String> {
        let lost = self.figures.iter().filter(|figure| figure.is_loss());
        lost.map(|figure| format!("{}: {}: {}", figure.goal, figure.what, short(figure.value))).collect()
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let head = HEAD.map(str::to_owned);
        let rows: String = self.figures.iter().map(|figure| line(&figure.cells())).collect();
        format!("{}| {} |\n{rows}", line(&head), ["---"; 8].join(" | "))
    }

    pub(crate) fn json(&self) -> String {
        let figures: Vec<Value> = self.figures.iter().map(Figure::json).collect();
        json!({ "figures": figures }).to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<[String; 8]> =
            std::iter::once(HEAD.map(str::to_owned)).chain(self.figures.iter().map(Figure::cells)).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        for row in &rows {
            let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_judged_by_its_ratio_where_it_has_one() {
        let check = |figure: &Figure, expect: &str| assert_eq!(figure.verdict(), expect, "{figure:?}");
        let figure = || Figure::new("G1", "x", 40.0, "µs");
        check(&figure(), "–");
        check(&figure().at_most(45.0), "met");
        check(&figure().at_most(20.0), "missed by 2x");
        check(&figure().at_least(80.0), "missed by 2x");
        check(&figure().at_most(1.0).beside("pipe", 10.0, Some(Bound::AtMost(8.0))), "met");
        check(&figure().at_most(45.0).beside("pipe", 1.0, Some(Bound::AtMost(8.0))), "missed by 5x");
        check(&figure().at_most(45.0).beside("pipe", 1.0, None), "met");
        check(&Figure::new("G3", "lost", 0.0, "").at_most(0.0), "met");
        check(&Figure::new("G3", "lost", 1.0, "").at_most(0.0), "missed");
    }

    #[test]
    fn numbers_are_short() {
        let check = |value: f64, expect: &str| assert_eq!(short(value), expect);
        check(0.0, "0");
        check(0.5, "0.5");
        check(12.34, "12.3");
        check(1234.0, "1234");
        check(12_345.0, "12 k");
        check(1_234_567.0, "1.23 M");
        check(0.0123, "1.23e-2");
    }

    #[test]
    fn a_table_has_a_line_for_each_figure() {
        let report = Report { figures: vec![Figure::new("G1", "latency", 40.0, "µs").at_most(4.0)] };
        assert!(report.losses().is_empty(), "a slow machine is no loss");
        let lossy = Report { figures: vec![Figure::new("G1", "lost", 2.0, "").at_most(0.0)] };
        assert_eq!(lossy.losses(), ["G1: lost: 2"]);
        assert_eq!(report.markdown().lines().count(), 3);
        assert_eq!(report.to_string().lines().count(), 2);
        assert!(report.json().contains(r#""goal":"G1""#));
    }
}
