//! Tests of runs: numbers from reports, and the remaining time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::json;

use super::extract::{Printed, parse, points, without_intervals};
use super::measure;
use super::progress::{left, show_time};
use super::validity::invalidity_reasons;
use crate::network::NetworkKind;
use crate::plan::template::Variables;
use crate::plan::tests::{WHOLE, many_points, read};
use crate::plan::{Mode, Run};

fn printed(client: serde_json::Value, server: Option<serde_json::Value>) -> Printed {
    Printed { client, server, netem: None }
}

#[test]
fn missing_requirements_are_known_before_the_run() {
    let plan = read(&WHOLE.replace("kind = \"netem\"", "cores = [\"0\", \"1\"]\nkind = \"netem\"")).unwrap();
    let run = &plan.runs(Mode::Whole).unwrap()[0];
    let names = |run: &Run| -> Vec<String> {
        measure::programs(run).iter().map(|it| it.shown().split(' ').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(run), ["send", "serve", "setpriv", "ip", "taskset"]);
    let mut counted = run.clone();
    counted.client = "strandline lab instructions -- strandline perf server".to_owned();
    counted.network.kind = NetworkKind::Veth;
    let names = names(&counted);
    assert!(names.contains(&"valgrind".to_owned()) && names.contains(&"ethtool".to_owned()), "{names:?}");
}

#[test]
fn numbers_are_taken_out_of_reports() {
    let plan = read(WHOLE).unwrap();
    let variables = Variables::from([("every".to_owned(), "10".to_owned())]);
    let both = printed(json!({"end": {"bits": 2e6}}), Some(json!({"bits": 50})));
    let tcp = points(&plan, &plan.series[0], Some("10"), &both, &variables).unwrap();
    assert_eq!(tcp.len(), 1);
    assert_eq!((tcp[0].value.as_deref(), tcp[0].measured["throughput"]), (Some("10"), 2.0));
    // A series with its own expression over the server's report and a variable.
    let ours = points(&plan, &plan.series[1], Some("10"), &both, &variables).unwrap();
    assert_eq!(ours[0].measured["throughput"], 5.0);
    for (printed, hint) in [
        (printed(json!({"end": {}}), None), "the output has no {/end/bits}"),
        (
            printed(json!({"end": null, "end_missing": "not root: use sudo"}), None),
            "the output has no {/end/bits}: not root: use sudo",
        ),
        (
            printed(json!({"end": {"bits": null, "bits_missing": "nobody counted them"}}), None),
            "the output has no {/end/bits}: nobody counted them",
        ),
        (printed(json!({"end": {"bits": null}}), None), "the output has no {/end/bits}"),
        (printed(json!({"end": {"bits": "many"}}), None), "\"many\", not a number"),
    ] {
        let error = points(&plan, &plan.series[0], None, &printed, &variables).unwrap_err();
        assert!(error.contains("throughput") && error.contains(hint), "{error}");
    }
    let error = points(&plan, &plan.series[1], None, &printed(json!({}), None), &variables).unwrap_err();
    assert!(error.contains("no output"), "{error}");
}

#[test]
fn one_run_may_give_many_points() {
    let text = many_points().replace("\"{/bits}\"", "\"{/bits} / {client:/scale}\"");
    let plan = read(&text).unwrap();
    let steps = json!({"scale": 2, "steps": [{"held": 1, "bits": 10}, {"held": 1000, "bits": 30}]});
    let points = points(&plan, &plan.series[1], None, &printed(steps, None), &Variables::new()).unwrap();
    let found: Vec<_> =
        points.iter().map(|point| (point.value.as_deref().unwrap(), point.measured["throughput"])).collect();
    assert_eq!(found, [("1", 5.0), ("1000", 15.0)]);
    let none = super::extract::points(
        &plan,
        &plan.series[1],
        None,
        &printed(json!({"steps": 3}), None),
        &Variables::new(),
    );
    assert!(none.unwrap_err().contains("no array at /steps"));
}

#[test]
fn reports_are_found_in_what_programs_print() {
    assert_eq!(parse("{\n \"a\": 1\n}\n").unwrap()["a"], 1);
    assert_eq!(parse("hello\n{\"a\":2}\n\n").unwrap()["a"], 2);
    assert!(parse("\n").unwrap_err().contains("no output"));
    assert!(parse("no luck").unwrap_err().contains("no luck"));
    assert_eq!(without_intervals(json!({"intervals": [1], "end": 2})), json!({"end": 2}));
    let part = json!({"intervals": [{"sum": 1}], "end": 2});
    assert_eq!(without_intervals(json!({"report": part})), json!({"report": {"end": 2}}));
    assert_eq!(without_intervals(json!({"programs": [part, 3]})), json!({"programs": [{"end": 2}, 3]}));
}

#[test]
fn the_time_left_learns_from_the_time_taken() {
    assert_eq!(left(0.0, 60.0, 0.0), 60.0);
    // It took twice as long as estimated.
    assert_eq!(left(10.0, 60.0, 20.0), 120.0);
    assert_eq!([show_time(45.2), show_time(720.0), show_time(3900.0)], ["45 s", "12 min", "1 h 05 min"]);
}

#[test]
fn what_programs_say_against_a_run_is_heard() {
    let mut plan = read(WHOLE).unwrap();
    let run = plan.runs(Mode::Whole).unwrap().remove(0);
    let said = |plan: &crate::plan::Plan, client: serde_json::Value| invalidity_reasons(plan, &run, &client);
    let failed = json!({"steps": [{"completed": 98, "failed": 2, "errors": {"refused": 2}}]});
    assert_eq!(said(&plan, failed.clone()), ["2 of 100 operations failed: refused (failed-max = 0)"]);
    assert!(said(&plan, json!({"completed": 100, "failed": 0})).is_empty());
    let http = json!({"replies": 99, "errors_total": 1, "errors": {"client-timo": 0, "connreset": 1}});
    assert_eq!(said(&plan, http.clone()), ["1 of 100 operations failed: connreset (failed-max = 0)"]);
    plan.runs.failed_max = 0.02;
    assert!(said(&plan, failed).is_empty() && said(&plan, http).is_empty());
    let rate = |reached: f64| json!([{"rate_asked": 14_800.0, "rate_reached": reached}]);
    assert_eq!(
        said(&plan, rate(14_000.0)),
        ["only 14,000 of 14,800 operations/s were reached (rate-min = 0.95)"]
    );
    assert!(said(&plan, rate(14_500.0)).is_empty());
    // A ladder without a fixed rate.
    assert!(said(&plan, json!({"rate_asked": null, "rate_reached": null})).is_empty());
    let tcp = json!({"end": {"sender_tcp_congestion": "bbr"}});
    assert_eq!(said(&plan, tcp.clone()), ["TCP used bbr instead of reno"]);
    // A TCP flow beside an SCTP one, which has its own congestion control.
    let together = json!({"programs": [{"end": {"sender_congestion": "cubic"}}, tcp]});
    assert_eq!(said(&plan, together), ["TCP used bbr instead of reno"]);
    assert!(said(&plan, json!({"end": {"sender_congestion": "cubic"}})).is_empty());
}

#[test]
fn callgrind_tells_how_much_it_counted() {
    let told = "warning\n==12== \n==12== Events    : Ir\n==12== Collected : 123456\n";
    assert_eq!(crate::instructions::collected(told), Some(123_456));
    assert_eq!(crate::instructions::collected("Collected : 3"), None);
}
