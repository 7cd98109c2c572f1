//! Tests of the report, from stored results to a page.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::claims::{Verdict, count, counted, judge, with_numbers};
use super::*;
use crate::plan::Mode;
use crate::plan::tests::{WHOLE, many_points, read};
use crate::results::tests::{Folder, record};
use crate::results::{Point, Record};

const PAPER: &str = "title = \"A paper\"\nauthors = \"A. Author\"\nyear = 2005\nvenue = \"Here\"\nsetup = \"Two <machines>\"\n";

/// Creates plans and results in a folder; SCTP has `factor` times the throughput of TCP.
fn laboratory(folder: &Folder, plan: &str, factor: f64) -> ReportArgs {
    let experiments = folder.0.join("experiments");
    fs::create_dir_all(experiments.join("paper")).unwrap();
    fs::write(experiments.join("paper/plan.toml"), plan).unwrap();
    fs::write(experiments.join("paper/paper.toml"), PAPER).unwrap();
    let plan = read(plan).unwrap();
    let mut results = Results::load(&folder.0.join("results"), &plan).unwrap();
    for run in plan.runs(Mode::Whole).unwrap() {
        let number = f64::from(run.repetition) + 90.0;
        let number = if run.series == 1 { number * factor } else { number };
        let mut record = record(&plan, &run, Mode::Whole, number);
        if run.series == 0 && run.repetition == 2 {
            record.valid = false;
            record.invalid_because.push("the emulator was <late>".to_owned());
        }
        results.add(record).unwrap();
    }
    ReportArgs {
        chosen: Vec::new(),
        output: folder.0.join("report"),
        unmeasured: false,
        claims: true,
        places: Places { experiments, results: folder.0.join("results") },
    }
}

#[test]
fn a_report_is_one_file_that_loads_nothing() {
    let folder = Folder::new("report");
    let args = laboratory(&folder, WHOLE, 1.2);
    run(&args).unwrap();
    let html = fs::read_to_string(args.output.join("index.html")).unwrap();
    for expected in [
        "Figure 1: Throughput",
        "A paper",
        "Two &lt;machines&gt;",
        "10 of 12 runs of the full set",
        "reproduced",
        "Here 1.2; expected at least 1",
        "Everything, 110 Mbit/s.",
        "the emulator was &lt;late&gt;",
        "<code>netem; rate=100mbit,rtt=10ms; to the right loss-every=10; tcp=cubic</code>",
        "TCP of old, published",
        "send 10.0.1.2 --time 8 --sacks 2",
        "prefers-color-scheme:dark",
    ] {
        assert!(html.contains(expected), "{expected} is not in the report");
    }
    assert!(!html.contains("<script") && !html.contains("url(") && !html.contains("@import"));
    let outside = html.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    assert!(!outside.contains("http:") && !outside.contains("https:") && !outside.contains(" src="));
    // Every link leads to an anchor on the page or to a file beside it.
    for link in html.split(" href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let found = match link.strip_prefix('#') {
            Some(anchor) => html.contains(&format!("id=\"{anchor}\"")),
            None => link == "data:," || args.output.join(link).exists(),
        };
        assert!(found, "{link}");
    }
    let data = fs::read_to_string(args.output.join("paper-plan.jsonl")).unwrap();
    assert_eq!(data.lines().count(), 12);
}

#[test]
fn what_is_worse_than_the_baseline_is_said() {
    let text = WHOLE.replace("kind = \"lines\"", "kind = \"lines\"\nbaseline = \"tcp\"");
    let text = text.replace("/ 1e6\"\n", "/ 1e6\"\nbetter = \"more\"\n");
    let page = |name: &str, text: &str, factor: f64| {
        let folder = Folder::new(name);
        let args = laboratory(&folder, text, factor);
        run(&args).unwrap();
        fs::read_to_string(args.output.join("index.html")).unwrap()
    };
    let less = page("less", &text, 0.5);
    assert!(less.contains("as a multiple of TCP, worse by more than 2 % in 2 of 2 cells"));
    assert!(less.contains("<td class=\"number worse\">0.5 x (worse)</td>"));
    assert!(less.contains("<th class=\"number\">10 %</th>"));
    // A value slightly below the baseline counts as equal.
    let same = page("same", &text, 0.99);
    assert!(same.contains("in 0 of 2 cells") && same.contains("<td class=\"number\">0.99 x</td>"));
    let more = page("more", &text, 2.0);
    assert!(more.contains("in 0 of 2 cells") && more.contains("<td class=\"number\">2 x</td>"));
    // If the plan allows no tolerance, it doesn't.
    let strict = text.replace("baseline = \"tcp\"", "baseline = \"tcp\"\nsame = 0");
    let strict = page("strict", &strict, 0.99);
    assert!(strict.contains("as a multiple of TCP, worse in 2 of 2 cells"));
    assert!(strict.contains("<td class=\"number worse\">0.99 x (worse)</td>"));
    let unknown = text.replace("baseline = \"tcp\"", "baseline = \"cubic\"");
    assert!(read(&unknown).unwrap_err().contains("no series 'cubic'"));
}

#[test]
fn unpublished_numbers_are_marked_as_computed() {
    let folder = Folder::new("computed");
    let computed =
        "computed = [\"throughput\"]\nsource = \"section 1, bits over seconds\"\nvalues = { throughput = {";
    let text = WHOLE.replace("values = { throughput = {", computed);
    let args = laboratory(&folder, &text, 1.0);
    run(&args).unwrap();
    let page = fs::read_to_string(args.output.join("index.html")).unwrap();
    assert!(page.contains("TCP of old, computed"), "in the legend");
    assert!(page.contains("50 <span class=\"faint\">(computed)</span>"), "in the table");
    assert!(page.contains("section 1, bits over seconds"));
}

#[test]
fn figures_of_several_builds_say_so() {
    let folder = Folder::new("builds");
    let args = laboratory(&folder, WHOLE, 1.0);
    run(&args).unwrap();
    let page = || fs::read_to_string(args.output.join("index.html")).unwrap();
    assert!(page().contains("strandline 0.1.0, commit 0123456789ab, build a"));
    assert!(!page().contains("different builds"));
    let file = args.places.results.join("paper/plan.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("\"build\":\"a\"", "\"build\":\"b\"", 1)).unwrap();
    run(&args).unwrap();
    assert!(page().contains("Measured with 2 different builds"));
    // Also if all runs of the other build are invalid.
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines[1] =
        lines[1].replace("\"build\":\"a\"", "\"build\":\"b\"").replace("\"valid\":true", "\"valid\":false");
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    run(&args).unwrap();
    assert!(page().contains("Measured with 2 different builds"));
}

#[test]
fn point_without_valid_run_has_a_row() {
    let folder = Folder::new("row");
    let args = laboratory(&folder, WHOLE, 1.0);
    let file = args.places.results.join("paper/plan.jsonl");
    let mut records: Vec<Record> =
        fs::read_to_string(&file).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for record in records.iter_mut().filter(|record| record.series == "ours") {
        record.valid = false;
        record.points.clear();
    }
    let lines: Vec<String> = records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    fs::write(&file, lines.join("\n") + "\n").unwrap();
    run(&args).unwrap();
    let page = fs::read_to_string(args.output.join("index.html")).unwrap();
    assert_eq!(page.matches("no valid run (3 invalid)</td>").count(), 2);
    assert!(page.contains("no valid run: Strandline at 10") && page.contains("Strandline: no valid run"));
}

#[test]
fn points_outside_the_paper_count_apart() {
    let folder = Folder::new("own");
    let own =
        "\n[[claim]]\nown = true\nsays = \"And TCP is there.\"\nvalue = \"{tcp.throughput@10}\"\nmin = 1\n";
    let args = laboratory(&folder, &format!("{WHOLE}{own}"), 1.2);
    run(&args).unwrap();
    let page = || fs::read_to_string(args.output.join("index.html")).unwrap();
    assert!(page().contains("Of <strong>1</strong> published claims evaluated, <strong>1</strong>"));
    assert!(page().contains("Of <strong>1</strong> claims of our own <strong>1</strong> hold."));
    assert!(page().contains("1 of 1 reproduced, 1 of 1 own claims"));
    assert!(page().contains("And TCP is there. (Not in the paper.)"));
    // Without a paper, nothing is attributed to one.
    fs::write(args.places.experiments.join("paper/paper.toml"), format!("{PAPER}own = true\n")).unwrap();
    run(&args).unwrap();
    assert!(page().contains("Of <strong>0</strong> published claims"));
    assert!(page().contains("Of <strong>2</strong> claims of our own <strong>2</strong> hold."));
}

#[test]
fn single_published_number_is_drawn_as_a_line() {
    let text = many_points().replace("{ \"10\" = 50, \"100\" = 90 }", "50");
    let plan = read(&text).unwrap();
    let folder = Folder::new("each");
    let mut results = Results::load(&folder.0, &plan).unwrap();
    let mut one = record(&plan, &plan.runs(Mode::Whole).unwrap()[0], Mode::Whole, 7.0);
    let point = |value: &str| Point { value: Some(value.to_owned()), ..one.points[0].clone() };
    one.points = vec![point("2048"), point("0"), point("256")];
    results.add(one).unwrap();
    let evaluation = evaluate(&plan, &results).unwrap();
    let chart = chart::chart(&plan, &evaluation, &plan.measures[0]);
    let published = chart.lines.iter().find(|line| line.published).unwrap();
    let drawn: Vec<_> = published.marks.iter().map(|mark| (mark.x, mark.y)).collect();
    assert_eq!(drawn, [(0.0, 50.0), (256.0, 50.0), (2048.0, 50.0)]);
}

#[test]
fn nothing_measured_says_what_to_do() {
    let folder = Folder::new("nothing");
    let mut args = laboratory(&folder, WHOLE, 1.0);
    fs::remove_dir_all(&args.places.results).unwrap();
    let error = run(&args).unwrap_err();
    assert!(error.to_string().contains("strandline lab run --short --all"), "{error}");
    args.unmeasured = true;
    run(&args).unwrap();
    let html = fs::read_to_string(args.output.join("index.html")).unwrap();
    assert!(html.contains("No results yet") && html.contains("not evaluated"));
}

#[test]
fn claims_are_judged() {
    let verdict = |bounds: &str, factor: f64| {
        let folder = Folder::new(&format!("claims-{factor}-{}", bounds.len()));
        let text = WHOLE.replace("min = 1\n", &format!("{bounds}\n"));
        let args = laboratory(&folder, &text, factor);
        let plan = read(&text).unwrap();
        let results = Results::load(&args.places.results, &plan).unwrap();
        let evaluation = evaluate(&plan, &results).unwrap();
        judge(&plan.claims[0], &plan, &evaluation)
    };
    assert!(matches!(verdict("min = 1", 1.5), Verdict::Holds(value) if (value - 1.5).abs() < 1e-9));
    assert!(matches!(verdict("min = 1", 0.5), Verdict::Fails(_)));
    assert!(matches!(verdict("min = 1\nmax = 1.2", 1.5), Verdict::Fails(_)));
    assert!(matches!(verdict("max = 1.2\nbetter = \"more\"", 1.5), Verdict::Better(_)));
    assert!(matches!(verdict("min = 1\nbetter = \"more\"", 0.5), Verdict::Fails(_)));
    assert!(matches!(verdict("min = 2\nbetter = \"less\"", 1.5), Verdict::Better(_)));
}

#[test]
fn what_was_not_measured_is_left_open() {
    let folder = Folder::new("open");
    let plan = read(WHOLE).unwrap();
    let results = Results::load(&folder.0, &plan).unwrap();
    let evaluation = evaluate(&plan, &results).unwrap();
    let verdict = judge(&plan.claims[0], &plan, &evaluation);
    assert_eq!(verdict, Verdict::Open("ours.throughput@10 was not measured".to_owned()));
    let text = with_numbers("{tcp.throughput@10}, published {paper.throughput@10}", &plan, &evaluation);
    assert_eq!(text, "(not measured), published 50");
    let verdicts = [verdict, Verdict::Holds(1.0), Verdict::Better(2.0), Verdict::Fails(3.0)];
    assert_eq!(count(&verdicts), [3, 1, 1]);
    assert_eq!(counted([3, 1, 1]), "1 of 3 reproduced, 1 better");
    assert_eq!(counted([0, 0, 0]), "not evaluated");
}

#[test]
fn days_have_dates() {
    assert_eq!([date(0), date(59), date(19_782)], [(1970, 1, 1), (1970, 3, 1), (2024, 2, 29)]);
    assert_eq!(date(20_778), (2026, 11, 21));
}
