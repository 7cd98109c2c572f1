//! `strandline lab` as a user runs it: from plans to a report that a browser shows.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at the first error")]

mod browser;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

/// A plan whose programs only print what stands in a file.
const PLAN: &str = r#"
figure = "Figure 1"
title = "Two files"
source = "section 1"
shows = "One is larger."
differs = "Nothing."
[network]
kind = "none"
[runs]
seconds = 0.1
repetitions = 2
takes = 0.1
timeout = 20
[sweep]
variable = "size"
values = [1, 10]
label = "Size"
unit = "KB"
[[measure]]
name = "speed"
label = "Speed"
unit = "Mbit/s"
value = "{/speed} * {size}"
better = "more"
[[series]]
name = "a"
title = "The first, with a name that takes its room"
transport = "sctp"
client = "cat FOLDER/a.json"
[[series]]
name = "b"
title = "The second"
transport = "tcp"
client = "cat FOLDER/b.json"
[draw]
kind = "lines"
baseline = "b"
[[claim]]
says = "The first is faster."
value = "100 * ({a.speed@10} + {a.speed@10}) / ({b.speed@10} + {b.speed@10}) / 100"
min = 1
"#;

/// A folder with experiments; goes with this value.
struct Laboratory {
    folder: PathBuf,
}

impl Laboratory {
    fn new(name: &str, plan: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("lab-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let paper = folder.join("experiments/someone-2000");
        fs::create_dir_all(&paper).unwrap();
        let about = "title = \"T\"\nauthors = \"A\"\nyear = 2000\nvenue = \"V\"\nsetup = \"S\"\n";
        fs::write(paper.join("paper.toml"), about).unwrap();
        fs::write(paper.join("figure1.toml"), plan.replace("FOLDER", folder.to_str().unwrap())).unwrap();
        fs::write(folder.join("a.json"), "{\"speed\": 3}").unwrap();
        fs::write(folder.join("b.json"), "hello\n{\"speed\": 2}\n").unwrap();
        Self { folder }
    }

    fn lab(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.arg("lab").args(arguments).current_dir(&self.folder);
        command
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let Output { status, stdout, stderr } = self.lab(arguments).output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    fn results(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.join("lab-results/someone-2000/figure1.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Laboratory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[test]
fn what_was_measured_is_not_measured_again() {
    let laboratory = Laboratory::new("resume", PLAN);
    let (code, listed, _) = laboratory.run(&["list"]);
    assert_eq!(code, Some(0));
    assert!(listed.contains("someone-2000/figure1") && listed.contains("done: 0 of 8"), "{listed}");
    let (code, commands, told) = laboratory.run(&["run", "--all", "--dry-run"]);
    assert!(code == Some(0) && commands.contains("a.json") && told.contains("8 runs"), "{commands}{told}");
    let (code, _, told) = laboratory.run(&["run", "someone-2000"]);
    assert_eq!(code, Some(0), "{told}");
    let results = laboratory.results();
    assert_eq!(results.len(), 8);
    let order: Vec<_> = results.iter().map(|line| line["series"].as_str().unwrap()).collect();
    assert_eq!(order, ["a", "b", "a", "b", "a", "b", "a", "b"]);
    assert_eq!(results[2]["points"][0]["measured"]["speed"], 30.0);
    assert_eq!((&results[3]["seed"], &results[4]["seed"]), (&Value::from(1), &Value::from(2)));
    let (code, _, told) = laboratory.run(&["run", "someone-2000/figure1"]);
    assert!(code == Some(0) && told.contains("all 8 runs are done"), "{told}");
    assert_eq!(laboratory.results().len(), 8);
    // A piece is missing, as after Ctrl-C.
    let file = laboratory.folder.join("lab-results/someone-2000/figure1.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let kept: Vec<&str> = text.lines().take(5).collect();
    fs::write(&file, kept.join("\n") + "\n").unwrap();
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("3 runs (5 done before)"), "{told}");
    assert_eq!(laboratory.results().len(), 8);
    assert_eq!(laboratory.run(&["run", "--all", "--again"]).0, Some(0));
    assert_eq!(laboratory.results().len(), 16);
    let (code, told, _) = laboratory.run(&["report"]);
    assert!(code == Some(0) && told.contains("1 of 1 the same"), "{told}");
    let pictures = fs::read_dir(laboratory.folder.join("lab-report")).unwrap().flatten();
    let pictures: Vec<_> = pictures.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(pictures.contains(&"someone-2000-figure1-speed.png".to_owned()), "{pictures:?}");
}

#[test]
fn a_program_that_fails_spoils_only_its_own_runs() {
    let plan = PLAN.replace("cat FOLDER/b.json", "cat FOLDER/missing.json");
    let laboratory = Laboratory::new("fails", &plan);
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("4 of 8 runs are not valid") && told.contains("No such file"), "{told}");
    let results = laboratory.results();
    let of = |series: &str, valid: bool| {
        results.iter().filter(|line| line["series"] == series && line["valid"] == valid).count()
    };
    assert_eq!((of("a", true), of("b", false), results.len()), (4, 4, 8));
    // Now it works: only what failed is done.
    fs::write(laboratory.folder.join("missing.json"), "{\"speed\": 2}").unwrap();
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("4 runs (4 done before)"), "{told}");
}

#[test]
fn what_waits_for_something_is_only_listed() {
    let plan = PLAN.replace("[network]", "waits-for = \"a flying server\"\n[network]");
    let laboratory = Laboratory::new("waits", &plan);
    let (code, listed, _) = laboratory.run(&["list"]);
    assert!(code == Some(0) && listed.contains("waits for: a flying server"), "{listed}");
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("nothing to run"), "{told}");
    assert_eq!(laboratory.run(&["report", "--unmeasured"]).0, Some(0));
    let report = fs::read_to_string(laboratory.folder.join("lab-report/index.html")).unwrap();
    assert!(report.contains("Waits for: a flying server"));
}

#[test]
fn errors_say_what_to_do() {
    let laboratory = Laboratory::new("errors", &PLAN.replace("cat FOLDER/a.json", "iperf3000 -c {to}"));
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(1) && told.contains("no program 'iperf3000'"), "{told}");
    assert!(told.contains("someone-2000/figure1"), "{told}");
    assert!(!laboratory.folder.join("lab-results").exists());
    let (code, _, told) = laboratory.run(&["run", "nobody-1900"]);
    assert!(code == Some(1) && told.contains("strandline lab list"), "{told}");
    let (code, _, told) = laboratory.run(&["report"]);
    assert!(code == Some(1) && told.contains("strandline lab run"), "{told}");
    let (code, _, told) = laboratory.run(&["run"]);
    assert!(code == Some(2) && told.contains("--all"), "{told}");
    let file = laboratory.folder.join("experiments/someone-2000/figure1.toml");
    fs::write(&file, PLAN.replace("unit = \"KB\"", "units = \"KB\"")).unwrap();
    let (code, _, told) = laboratory.run(&["list"]);
    assert!(code == Some(1) && told.contains("figure1.toml") && told.contains("`unit`"), "{told}");
    let (code, _, told) = laboratory.run(&["list", "--experiments", "/does/not/exist"]);
    assert!(code == Some(1) && told.contains("--experiments"), "{told}");
}

#[test]
fn help_has_examples() {
    let laboratory = Laboratory::new("help", PLAN);
    for arguments in [&["--help"][..], &["list", "--help"], &["run", "--help"], &["report", "--help"]] {
        let (code, help, _) = laboratory.run(arguments);
        assert!(code == Some(0) && help.contains("\n  strandline lab "), "{help}");
    }
}

#[test]
fn an_interrupted_run_can_go_on() {
    let plan = PLAN.replace("cat FOLDER/b.json", "sleep 1000");
    let laboratory = Laboratory::new("interrupted", &plan);
    let mut child = laboratory.lab(&["run", "--all"]).stderr(Stdio::piped()).spawn().unwrap();
    // The second run is the one that lasts.
    let mut told = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let reached = told.by_ref().map_while(Result::ok).any(|line| line.contains("2/8"));
    assert!(reached);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let last = told.map_while(Result::ok).last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(last.contains("goes on here"), "{last}");
    assert_eq!(laboratory.results().len(), 1);
}

#[test]
fn virtual_time_repeats_itself() {
    let simulate = |seed: &str| {
        let arguments = ["lab", "simulate", "--link", "rate=10mbit,rtt=20ms", "--to-right", "loss=2%"];
        let more = ["--time", "5", "--seed", seed];
        let output = Command::new(PROGRAM).args(arguments).args(more).output().unwrap();
        assert!(output.status.success());
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (one, again, other) = (simulate("1"), simulate("1"), simulate("2"));
    assert_eq!(one, again);
    assert_ne!(one["end"], other["end"]);
    let bits = one["end"]["sum_received"]["bits_per_second"].as_f64().unwrap();
    assert!((1e5..10e6).contains(&bits), "{bits}");
    assert!(one["end"]["link"]["dropped_loss"].as_u64().unwrap() > 0);
}

fn browse(page: &Path, arguments: &[&str]) -> (String, String) {
    browser::browse(&page.with_extension("profile"), &format!("file://{}", page.display()), arguments)
}

#[test]
fn a_browser_shows_the_report_at_every_width() {
    let laboratory = Laboratory::new("browser", PLAN);
    assert_eq!(laboratory.run(&["run", "--all"]).0, Some(0));
    assert_eq!(laboratory.run(&["report"]).0, Some(0));
    let folder = laboratory.folder.join("lab-report");
    let report = fs::read_to_string(folder.join("index.html")).unwrap();
    let (dom, log) = browse(&folder.join("index.html"), &["--dump-dom"]);
    assert!(dom.contains("Figure 1: Two files") && dom.contains("<svg"), "{dom}");
    assert!(!log.contains("CONSOLE"), "{log}");
    // What a reader prefers, as the browser's settings have it: 0 is dark, 1 is light.
    for (mode, ground) in [(0, "rgb(20, 28, 38)"), (1, "rgb(255, 255, 255)")] {
        let mode = format!("--blink-settings=preferredColorScheme={mode}");
        let (dom, log) =
            browse(&frames(&folder, &report), &[&mode, "--virtual-time-budget=5000", "--dump-dom"]);
        for width in [320, 375, 768, 1200] {
            let expected = format!("frame {width}: 0 pixels too wide, text true, ground {ground}");
            assert!(dom.contains(&expected), "{expected}: {}", tail(&dom));
        }
        assert!(!log.contains("CONSOLE"), "{log}");
    }
}

/// A page with a report in frames of several widths, with all that folds opened; below each stands how wide it is, how
/// high its letters, and its ground.
fn frames(folder: &Path, report: &str) -> PathBuf {
    let quoted = serde_json::to_string(report).unwrap().replace("</", "<\\/");
    let script = "for (const width of [320, 375, 768, 1200]) {
        const frame = document.createElement('iframe');
        frame.style.width = width + 'px'; frame.style.border = 0; frame.height = 900;
        frame.onload = () => {
            const page = frame.contentDocument;
            page.querySelectorAll('details').forEach(d => d.open = true);
            const narrow = page.querySelector('.narrow svg').getBoundingClientRect().width > 0;
            const text = page.querySelector((narrow ? '.narrow' : '.wide') + ' svg text').getBoundingClientRect().height;
            const line = document.createElement('p');
            const over = page.documentElement.scrollWidth - page.documentElement.clientWidth;
            const ground = frame.contentWindow.getComputedStyle(page.body).backgroundColor;
            line.textContent = `frame ${width}: ${over} pixels too wide, text ${text > 9}, ground ${ground}`;
            document.body.append(line);
        };
        frame.srcdoc = report; document.body.append(frame);
    }";
    let page = folder.join("frames.html");
    fs::write(&page, format!("<!doctype html><body><script>const report = {quoted};{script}</script>"))
        .unwrap();
    page
}

fn tail(text: &str) -> &str {
    let start = text.char_indices().rev().nth(400).map_or(0, |(at, _)| at);
    text.get(start..).unwrap_or_default()
}
