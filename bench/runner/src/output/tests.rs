use super::{shown, standing};
use crate::judge::Verdict;
use crate::plan::Metric;
use crate::statistics::Summary;

/// A verdict on a ratio where more is better, at the given bounds.
fn verdict(ratio: Option<f64>, must: Option<f64>, aim: Option<f64>) -> Verdict {
    let is_met = |bound: Option<f64>| Some(ratio? >= bound?);
    Verdict {
        of: "ours".to_owned(),
        metric: Metric::Goodput,
        against: Vec::new(),
        against_metric: None,
        rounds: 3,
        rounds_wanted: 3,
        ours: None,
        reference: None,
        ratio: ratio.and_then(|ratio| Summary::of(vec![ratio])),
        less_is_better: false,
        must,
        aim,
        or: None,
        must_is_met: is_met(must),
        aim_is_met: is_met(aim),
    }
}

#[test]
fn worst_comes_first() {
    let in_order = [
        verdict(Some(0.2), Some(0.9), None),
        verdict(Some(3.0), Some(4.0), None),
        verdict(None, Some(0.9), None),
        verdict(Some(1.0), Some(0.9), Some(2.0)),
        verdict(Some(0.3), None, Some(0.5)),
        verdict(Some(0.9), Some(0.9), None),
        verdict(Some(2.0), Some(0.9), None),
    ];
    assert!(in_order.is_sorted_by(|a, b| standing(a) <= standing(b)));
}

#[test]
fn numbers() {
    assert_eq!(shown(0.4567), "0.46");
    assert_eq!(shown(12.34), "12.3");
    assert_eq!(shown(1234567.8), "1,234,568");
    assert_eq!(shown(123.4), "123");
    assert_eq!(shown(-1234.0), "-1,234");
}
