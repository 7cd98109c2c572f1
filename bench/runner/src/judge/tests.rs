#![allow(clippy::unwrap_used)]

use super::*;

fn row(check: &str) -> Row {
    let text =
        format!("name = \"r\"\nwhat = \"r\"\nsubjects = [\"us\", \"a\", \"b\"]\nchecks = [{{ {check} }}]");
    toml::from_str(&text).unwrap()
}

fn rounds(metric: Metric, values: &[(&str, &[f64])]) -> Rounds {
    let of = |values: &[f64]| {
        values.iter().enumerate().map(|(round, value)| (round, Metrics::from([(metric, *value)]))).collect()
    };
    values.iter().map(|(name, values)| ((*name).to_owned(), of(values))).collect()
}

/// Returns the demand for more than half of this many rounds.
fn of(rounds: usize) -> Demand {
    Demand { rounds, all: false }
}

#[test]
fn ratio_is_against_the_best_of_each_round() {
    let rounds = rounds(
        Metric::Goodput,
        &[("us", &[10.0, 30.0, 20.0]), ("a", &[10.0, 10.0, 10.0]), ("b", &[5.0, 20.0, 5.0])],
    );
    let check = "metric = \"goodput\", against = [\"a\", \"b\"], must = 1.5, aim = 1.6";
    let verdict = judge(&row(check), &rounds, of(1)).remove(0);
    assert_eq!(verdict.ratio, Some(Summary { median: 1.5, least: 1.0, most: 2.0 }));
    assert_eq!((verdict.must_is_met, verdict.aim_is_met), (Some(true), Some(false)));
}

/// The limit of a socket takes the place of a multiple that it makes impossible.
#[test]
fn an_alternative_may_hold_instead() {
    let check =
        "metric = \"goodput\", against = [\"a\"], must = 2.0, or = { against = [\"b\"], must = 0.95 }";
    let met = |values: &[(&str, &[f64])]| {
        let verdict = judge(&row(check), &rounds(Metric::Goodput, values), of(1)).remove(0);
        verdict.must_is_met
    };
    assert_eq!(met(&[("us", &[20.0]), ("a", &[10.0]), ("b", &[90.0])]), Some(true));
    assert_eq!(met(&[("us", &[19.0]), ("a", &[10.0]), ("b", &[20.0])]), Some(true));
    assert_eq!(met(&[("us", &[18.0]), ("a", &[10.0]), ("b", &[20.0])]), Some(false));
    assert_eq!(met(&[("us", &[18.0]), ("a", &[10.0])]), None, "the alternative could hold");
    assert_eq!(met(&[("us", &[19.0]), ("b", &[20.0])]), Some(true));
    assert_eq!(met(&[("us", &[18.0]), ("b", &[20.0])]), None);
}

#[test]
fn of_costs_less_is_better() {
    let rounds = rounds(Metric::Cpu, &[("us", &[2.0]), ("a", &[1.0]), ("b", &[4.0])]);
    let verdict = |against: &str| {
        judge(&row(&format!("metric = \"cpu\", against = [{against}], must = 1.0")), &rounds, of(1)).remove(0)
    };
    assert_eq!(verdict("\"b\"").must_is_met, Some(true));
    assert_eq!(verdict("\"a\"").must_is_met, Some(false));
    assert_eq!(verdict("\"a\", \"b\"").must_is_met, Some(false));
}

#[test]
fn unmeasured_bound_is_neither_met_nor_missed() {
    let rounds = rounds(Metric::Goodput, &[("us", &[2.0]), ("a", &[1.0])]);
    let check = "metric = \"goodput\", against = [\"a\", \"b\"], must = 1.0";
    let verdict = judge(&row(check), &rounds, of(1)).remove(0);
    assert_eq!((verdict.ratio, verdict.must_is_met), (None, None));
}

#[test]
fn bounds_without_reference_are_absolute() {
    let rounds = rounds(Metric::Messages, &[("us", &[4e6, 6e6, 5e6])]);
    let verdict = judge(&row("metric = \"messages\", aim = 5e6"), &rounds, of(1)).remove(0);
    assert_eq!((verdict.must_is_met, verdict.aim_is_met), (None, Some(true)));
}

#[test]
fn few_rounds_of_many_say_nothing() {
    let rounds = rounds(Metric::Goodput, &[("us", &[2.0, 2.0]), ("a", &[1.0, 1.0])]);
    let row = row("metric = \"goodput\", against = [\"a\"], must = 1.0");
    assert_eq!(judge(&row, &rounds, of(3)).remove(0).must_is_met, Some(true));
    assert_eq!(judge(&row, &rounds, of(4)).remove(0).must_is_met, None);
}

#[test]
fn rounds_with_unequal_loads_beside_do_not_count() {
    let mut rounds = rounds(Metric::Goodput, &[("us", &[2.0, 9.0]), ("a", &[1.0, 1.0])]);
    for (name, rates) in [("us", [95.0, 50.0]), ("a", [100.0, 100.0])] {
        for (round, rate) in rates.into_iter().enumerate() {
            rounds.get_mut(name).unwrap().get_mut(&round).unwrap().insert(Metric::Beside, rate);
        }
    }
    let row = row("metric = \"goodput\", against = [\"a\"], must = 1.0");
    assert_eq!(judge(&row, &rounds, of(1)).remove(0).ratio.unwrap().most, 2.0);
}

#[test]
fn strictly_every_round_must_have_its_ratio() {
    let rounds = rounds(Metric::Goodput, &[("us", &[2.0, 2.0, 2.0]), ("a", &[1.0, 1.0])]);
    let row = row("metric = \"goodput\", against = [\"a\"], must = 1.0");
    let strict = |rounds| Demand { rounds, all: true };
    let lost = judge(&row, &rounds, strict(3)).remove(0);
    assert_eq!((lost.must_is_met, lost.rounds, lost.rounds_wanted), (None, 2, 3));
    assert_eq!(judge(&row, &rounds, of(3)).remove(0).must_is_met, Some(true));
    assert_eq!(judge(&row, &rounds, strict(2)).remove(0).must_is_met, Some(true));
}

/// Returns values of two metrics of one subject, by round.
fn with_own(of: (Metric, &[f64]), own: (Metric, &[f64])) -> Rounds {
    let mut all = rounds(of.0, &[("us", of.1)]);
    for (round, value) in own.1.iter().enumerate() {
        all.get_mut("us").unwrap().entry(round).or_default().insert(own.0, *value);
    }
    all
}

#[test]
fn metric_may_be_compared_within_a_run() {
    let rounds = with_own((Metric::Setup, &[110.0, 300.0, 90.0]), (Metric::SetupOfOne, &[100.0, 100.0]));
    let row = row("metric = \"setup\", against-metric = \"setup-of-one\", must = 2.0");
    let verdict = judge(&row, &rounds, of(3)).remove(0);
    assert_eq!(verdict.ratio, Some(Summary { median: 2.05, least: 1.1, most: 3.0 }));
    assert_eq!(
        (verdict.rounds, verdict.must_is_met),
        (2, Some(false)),
        "the third has nothing to compare with"
    );
    let reference = verdict.reference.unwrap();
    assert_eq!((reference.least, reference.most), (100.0, 100.0));
}

#[test]
fn metric_may_be_compared_with_another_subjects() {
    let mut rounds = rounds(Metric::Memory, &[("us", &[800.0]), ("a", &[5000.0])]);
    rounds.get_mut("a").unwrap().get_mut(&0).unwrap().insert(Metric::KernelMemory, 4000.0);
    let check = "metric = \"memory\", against = [\"a\"], against-metric = \"kernel-memory\", must = 0.25";
    assert_eq!(judge(&row(check), &rounds, of(1)).remove(0).ratio.unwrap().median, 0.2);
}

#[test]
fn counted_bounds_hold_in_every_round() {
    let rounds = rounds(Metric::LockWaits, &[("us", &[0.0, 0.0, 1.0])]);
    let verdict = judge(&row("metric = \"lock-waits\", must = 0.0"), &rounds, of(3)).remove(0);
    assert_eq!(verdict.must_is_met, Some(false));
}

/// A kernel share of zero or less would make any bound hold.
#[test]
fn nothing_is_no_reference() {
    let check = "metric = \"kernel-memory\", against = [\"a\"], must = 0.25";
    for reference in [0.0, -3.0] {
        let rounds = rounds(Metric::KernelMemory, &[("us", &[800.0, 800.0]), ("a", &[reference, 4000.0])]);
        let verdict = judge(&row(check), &rounds, of(2)).remove(0);
        assert_eq!((verdict.rounds, verdict.must_is_met), (1, None));
    }
}

/// A reference that collapses is one that is easily surpassed, unless ours does so too.
#[test]
fn collapsed_reference_is_a_reference() {
    let row = row("metric = \"offered-ten-times\", against = [\"a\"], must = 1.0");
    for (ours, met) in [(4000.0, true), (0.0, false)] {
        let rounds = rounds(Metric::OfferedTenTimes, &[("us", &[ours]), ("a", &[0.0])]);
        let verdict = judge(&row, &rounds, of(1)).remove(0);
        assert_eq!((verdict.rounds, verdict.must_is_met), (1, Some(met)), "{ours}");
    }
}
