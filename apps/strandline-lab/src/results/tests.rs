//! Tests of results: storing, finding and judging them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;

use super::statistics::{Summary, evaluate};
use super::*;
use crate::plan::Run;
use crate::plan::tests::{WHOLE, many_points, read};

/// A folder that is removed when this value is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("lab-test-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the record of a run that gave a number.
pub(crate) fn record(plan: &Plan, run: &Run, mode: Mode, number: f64) -> Record {
    let value = plan.value(run.value).map(ToString::to_string);
    let measured = plan.measures.iter().map(|measure| (measure.name.clone(), number)).collect();
    Record {
        key: run.key.clone(),
        series: plan.series[run.series].name.clone(),
        value: value.clone(),
        repetition: run.repetition,
        seed: run.seed,
        mode,
        valid: true,
        invalid_because: Vec::new(),
        points: vec![Point { value, measured }],
        began: 1_763_700_000,
        took_seconds: 1.5,
        network: run.network.clone(),
        client: run.client.clone(),
        server: run.server.clone(),
        plan: "0123".to_owned(),
        machine: Machine {
            processor: "A processor".to_owned(),
            cores: 2,
            memory_bytes: 24 << 30,
            kernel: "6.1".to_owned(),
            version: "0.1.0".to_owned(),
            commit: "0123456789ab".to_owned(),
            build: "a".to_owned(),
        },
        client_report: Value::Null,
        server_report: None,
        netem_report: None,
    }
}

#[test]
fn unwritable_results_are_detected_before_the_run() {
    let folder = Folder::new("check");
    let plan = read(WHOLE).unwrap();
    Results::load(&folder.0, &plan).unwrap().check().unwrap();
    let file = folder.0.join("no-folder");
    fs::write(&file, "").unwrap();
    let results =
        Results { path: file.join("paper").join("plan.jsonl"), ..Results::load(&folder.0, &plan).unwrap() };
    assert!(format!("{:#}", results.check().unwrap_err()).contains("no-folder/paper/plan.jsonl"));
}

#[test]
fn what_was_done_is_found_again() {
    let folder = Folder::new("resume");
    let plan = read(WHOLE).unwrap();
    let runs = plan.runs(Mode::Whole).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    assert!(results.records().is_empty() && !results.has(&runs[0].key, None));
    results.add(record(&plan, &runs[0], Mode::Whole, 10.0)).unwrap();
    let mut invalid = record(&plan, &runs[1], Mode::Whole, 11.0);
    invalid.valid = false;
    results.add(invalid).unwrap();
    let again = Results::load(&folder.0, &plan).unwrap();
    assert_eq!(again.records(), results.records());
    assert!(again.has(&runs[0].key, None) && again.has(&runs[0].key, Some("a")));
    // A different build may have measured something different.
    assert!(!again.has(&runs[0].key, Some("b")));
    // Invalid runs have to be repeated.
    assert!(!again.has(&runs[1].key, None) && !again.has(&runs[2].key, None));
}

#[test]
fn killed_run_leaves_usable_results() {
    let folder = Folder::new("killed");
    let plan = read(WHOLE).unwrap();
    let runs = plan.runs(Mode::Whole).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    results.add(record(&plan, &runs[0], Mode::Whole, 10.0)).unwrap();
    let path = results.path().to_owned();
    let whole = fs::read_to_string(&path).unwrap();
    // The last line is incomplete.
    fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    assert_eq!((results.records().len(), results.unreadable()), (1, 1));
    results.add(record(&plan, &runs[1], Mode::Whole, 20.0)).unwrap();
    let results = Results::load(&folder.0, &plan).unwrap();
    assert_eq!((results.records().len(), results.unreadable()), (2, 1));
    assert!(results.has(&runs[0].key, None) && results.has(&runs[1].key, None));
}

#[test]
fn summaries_are_medians_with_ranges() {
    let summary = |numbers: &[f64]| Summary::of(numbers);
    assert_eq!(summary(&[]), None);
    assert_eq!(summary(&[f64::NAN]), None);
    assert_eq!(summary(&[3.0]), Some(Summary { median: 3.0, min: 3.0, max: 3.0, count: 1 }));
    assert_eq!(summary(&[9.0, 1.0, 2.0]), Some(Summary { median: 2.0, min: 1.0, max: 9.0, count: 3 }));
    assert_eq!(summary(&[4.0, 1.0, 2.0, 9.0]), Some(Summary { median: 3.0, min: 1.0, max: 9.0, count: 4 }));
}

#[test]
fn only_what_is_valid_is_in_a_median() {
    let folder = Folder::new("invalid");
    let plan = read(WHOLE).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    for run in plan.runs(Mode::Whole).unwrap() {
        let mut record = record(&plan, &run, Mode::Whole, f64::from(run.repetition) * 10.0);
        if run.series == 1 && run.repetition == 3 {
            record.valid = false;
            record.invalid_because.push("the emulator was late".to_owned());
        }
        results.add(record).unwrap();
    }
    let judged = evaluate(&plan, &results).unwrap();
    assert_eq!((judged.mode, judged.planned, judged.done), (Mode::Whole, 12, 10));
    assert_eq!(judged.summary("tcp", Some("10"), "throughput").unwrap().median, 20.0);
    let ours = judged.summary("ours", Some("10"), "throughput").unwrap();
    assert_eq!((ours.median, ours.max, ours.count), (15.0, 20.0, 2));
    let point = &judged.series["ours"][1];
    assert_eq!((point.invalid_runs, point.invalid["throughput"].as_slice()), (1, [30.0].as_slice()));
    assert_eq!(judged.summary("tcp", Some("7"), "throughput"), None);
}

#[test]
fn newest_result_of_the_larger_set_counts() {
    let folder = Folder::new("sets");
    let plan = read(WHOLE).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    let (whole, short) = (plan.runs(Mode::Whole).unwrap(), plan.runs(Mode::Short).unwrap());
    for (run, number) in [(&short[0], 1.0), (&short[0], 2.0), (&short[1], 2.0)] {
        results.add(record(&plan, run, Mode::Short, number)).unwrap();
    }
    results.add(record(&plan, &whole[3], Mode::Whole, 99.0)).unwrap();
    let judged = evaluate(&plan, &results).unwrap();
    assert_eq!((judged.mode, judged.done, judged.planned), (Mode::Short, 2, 2));
    assert_eq!(judged.summary("ours", Some("10"), "throughput").unwrap().min, 2.0);
    for run in &whole {
        results.add(record(&plan, run, Mode::Whole, 50.0)).unwrap();
    }
    let judged = evaluate(&plan, &results).unwrap();
    assert_eq!((judged.mode, judged.done), (Mode::Whole, 12));
    assert_eq!(judged.summary("ours", Some("10"), "throughput").unwrap().max, 50.0);
}

#[test]
fn tries_that_do_not_count_are_still_known() {
    let folder = Folder::new("tries");
    let plan = read(WHOLE).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    let run = &plan.runs(Mode::Whole).unwrap()[0];
    let mut try_once = |number: f64, valid: bool| {
        let record = Record { valid, ..record(&plan, run, Mode::Whole, number) };
        results.add(record).unwrap();
        let judged = evaluate(&plan, &results).unwrap();
        let series = &judged.series[&plan.series[run.series].name][0];
        let median = series.summaries.get("throughput").map(|summary| summary.median);
        (judged.done, median, series.invalid.get("throughput").cloned().unwrap_or_default())
    };
    assert_eq!(try_once(1.0, false), (0, None, vec![1.0]));
    assert_eq!(try_once(2.0, false), (0, None, vec![1.0, 2.0]));
    assert_eq!(try_once(3.0, true), (1, Some(3.0), vec![1.0, 2.0]));
    assert_eq!(try_once(4.0, false), (1, Some(3.0), vec![1.0, 2.0, 4.0]));
    // Measured again: records before the superseded number no longer matter.
    assert_eq!(try_once(5.0, true), (1, Some(5.0), vec![4.0]));
}

#[test]
fn this_machine_says_what_it_is() {
    let machine = Machine::this("0123456789ab").unwrap();
    assert_eq!((machine.commit.as_str(), machine.build.len()), ("0123456789ab", 16));
    assert_eq!(machine, Machine::this("0123456789ab").unwrap(), "the same file");
    assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20 && !machine.kernel.is_empty());
}

#[test]
fn results_of_earlier_builds_do_not_count() {
    let folder = Folder::new("superseded");
    let plan = read(WHOLE).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    let run = &plan.runs(Mode::Whole).unwrap()[0];
    let mut try_once = |number: f64, valid: bool, build: &str| {
        let mut record = Record { valid, ..record(&plan, run, Mode::Whole, number) };
        record.machine.build = build.to_owned();
        results.add(record).unwrap();
        let judged = evaluate(&plan, &results).unwrap();
        let series = &judged.series[&plan.series[run.series].name][0];
        let median = series.summaries.get("throughput").map(|summary| summary.median);
        let invalid = series.invalid.get("throughput").cloned().unwrap_or_default();
        (median, invalid, results.has(&run.key, None), results.has(&run.key, Some("a")))
    };
    assert_eq!(try_once(1.0, true, "a"), (Some(1.0), vec![], true, true));
    // The new build tried it without a valid result.
    assert_eq!(try_once(2.0, false, "b"), (None, vec![2.0], false, false));
    assert_eq!(try_once(3.0, true, "b"), (Some(3.0), vec![2.0], true, false));
    assert_eq!(try_once(4.0, true, "a"), (Some(4.0), vec![], true, true));
}

#[test]
fn always_failing_series_is_reported() {
    let folder = Folder::new("always-fails");
    let plan = read(&many_points()).unwrap();
    let mut results = Results::load(&folder.0, &plan).unwrap();
    let runs = plan.runs(Mode::Whole).unwrap();
    let failed =
        |run: &Run| Record { valid: false, points: Vec::new(), ..record(&plan, run, Mode::Whole, 0.0) };
    results.add(failed(&runs[1])).unwrap();
    let judged = evaluate(&plan, &results).unwrap();
    let places = |judged: &super::statistics::Evaluation<'_>, series: &str| -> Vec<_> {
        let points = judged.series.get(series).into_iter().flatten();
        points.map(|point| (point.value.clone(), point.invalid_runs, point.summaries.len())).collect()
    };
    assert_eq!(places(&judged, "ours"), [(None, 1, 0)], "nobody knows where");
    assert!(places(&judged, "tcp").is_empty(), "it was not tried");
    let mut good = record(&plan, &runs[0], Mode::Whole, 7.0);
    let point = |value: &str| Point { value: Some(value.to_owned()), ..good.points[0].clone() };
    good.points = vec![point("1000"), point("50000")];
    results.add(good).unwrap();
    let judged = evaluate(&plan, &results).unwrap();
    let at = |value: &str, invalid: usize, numbers: usize| (Some(value.to_owned()), invalid, numbers);
    assert_eq!(places(&judged, "tcp"), [at("1000", 0, 1), at("50000", 0, 1)]);
    assert_eq!(
        places(&judged, "ours"),
        [at("1000", 1, 0), at("50000", 1, 0)],
        "wherever the others have points"
    );
    // A failed run of TCP beside a valid one.
    results.add(failed(&runs[2])).unwrap();
    let judged = evaluate(&plan, &results).unwrap();
    assert_eq!(places(&judged, "tcp"), [at("1000", 1, 1), at("50000", 1, 1)]);
}
