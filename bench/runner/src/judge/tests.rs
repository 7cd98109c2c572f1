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

#[test]
fn ratios_are_taken_in_each_round_against_the_best() {
    let rounds = rounds(
        Metric::Goodput,
        &[("us", &[10.0, 30.0, 20.0]), ("a", &[10.0, 10.0, 10.0]), ("b", &[5.0, 20.0, 5.0])],
    );
    let check = "metric = \"goodput\", against = [\"a\", \"b\"], must = 1.5, aim = 1.6";
    let verdict = judge(&row(check), &rounds, 1).remove(0);
    assert_eq!(verdict.ratio, Some(Summary { median: 1.5, least: 1.0, most: 2.0 }));
    assert_eq!((verdict.must_is_met, verdict.aim_is_met), (Some(true), Some(false)));
}

#[test]
fn of_costs_less_is_better() {
    let rounds = rounds(Metric::Cpu, &[("us", &[2.0]), ("a", &[1.0]), ("b", &[4.0])]);
    let verdict = |against: &str| {
        judge(&row(&format!("metric = \"cpu\", against = [{against}], must = 1.0")), &rounds, 1).remove(0)
    };
    assert_eq!(verdict("\"b\"").must_is_met, Some(true));
    assert_eq!(verdict("\"a\"").must_is_met, Some(false));
    assert_eq!(verdict("\"a\", \"b\"").must_is_met, Some(false));
}

#[test]
fn what_was_not_measured_is_neither_met_nor_missed() {
    let rounds = rounds(Metric::Goodput, &[("us", &[2.0]), ("a", &[1.0])]);
    let check = "metric = \"goodput\", against = [\"a\", \"b\"], must = 1.0";
    let verdict = judge(&row(check), &rounds, 1).remove(0);
    assert_eq!((verdict.ratio, verdict.must_is_met), (None, None));
}

#[test]
fn bounds_without_reference_are_absolute() {
    let rounds = rounds(Metric::Messages, &[("us", &[4e6, 6e6, 5e6])]);
    let verdict = judge(&row("metric = \"messages\", aim = 5e6"), &rounds, 1).remove(0);
    assert_eq!((verdict.must_is_met, verdict.aim_is_met), (None, Some(true)));
}

#[test]
fn few_rounds_of_many_say_nothing() {
    let rounds = rounds(Metric::Goodput, &[("us", &[2.0, 2.0]), ("a", &[1.0, 1.0])]);
    let row = row("metric = \"goodput\", against = [\"a\"], must = 1.0");
    assert_eq!(judge(&row, &rounds, 3).remove(0).must_is_met, Some(true));
    assert_eq!(judge(&row, &rounds, 4).remove(0).must_is_met, None);
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
    assert_eq!(judge(&row, &rounds, 1).remove(0).ratio.unwrap().most, 2.0);
}
