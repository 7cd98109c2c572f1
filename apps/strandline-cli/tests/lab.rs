//! End-to-end tests of `strandline lab`: from plans to a report in a browser.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::laboratory::{Laboratory, PLAN, PROGRAM};

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
    // A part is missing, as after Ctrl-C.
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
    assert!(code == Some(0) && told.contains("1 of 1 reproduced"), "{told}");
    assert!(!told.contains("(at "), "{told}");
    let (code, told, _) = laboratory.run(&["report", "--claims"]);
    assert!(code == Some(0) && told.contains("\n  reproduced ") && told.contains("(at "), "{told}");
    let pictures = fs::read_dir(laboratory.folder.join("lab-report")).unwrap().flatten();
    let pictures: Vec<_> = pictures.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(pictures.contains(&"someone-2000-figure1-speed.png".to_owned()), "{pictures:?}");
}

#[test]
fn what_another_build_measured_is_measured_again() {
    let laboratory = Laboratory::new("builds", PLAN);
    assert_eq!(laboratory.run(&["run", "--all"]).0, Some(0));
    let file = laboratory.folder.join("lab-results/someone-2000/figure1.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let build = laboratory.results()[0]["machine"]["build"].as_str().unwrap().to_owned();
    fs::write(&file, text.replace(&build, "0000000000000000")).unwrap();
    let (code, listed, _) = laboratory.run(&["list"]);
    assert!(code == Some(0) && listed.contains("done: 8 of 8, 8 of them by another build"), "{listed}");
    let (code, _, told) = laboratory.run(&["run", "--all", "--any-build"]);
    assert!(code == Some(0) && told.contains("all 8 runs are done"), "{told}");
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("8 runs were done by another build"), "{told}");
    assert_eq!(laboratory.results().len(), 16);
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("all 8 runs are done"), "{told}");
}

#[test]
fn failing_program_invalidates_only_its_own_runs() {
    let plan = PLAN.replace("cat FOLDER/b.json", "cat FOLDER/missing.json");
    let laboratory = Laboratory::new("fails", &plan);
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("4 of 8 runs are invalid") && told.contains("No such file"), "{told}");
    let results = laboratory.results();
    let of = |series: &str, valid: bool| {
        results.iter().filter(|line| line["series"] == series && line["valid"] == valid).count()
    };
    assert_eq!((of("a", true), of("b", false), results.len()), (4, 4, 8));
    // The program works now: only the failed runs are repeated.
    fs::write(laboratory.folder.join("missing.json"), "{\"speed\": 2}").unwrap();
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("4 runs (4 done before)"), "{told}");
}

#[test]
fn operations_that_failed_make_a_run_invalid() {
    let laboratory = Laboratory::new("failed", PLAN);
    fs::write(laboratory.folder.join("a.json"), "{\"speed\": 3, \"completed\": 9, \"failed\": 1}").unwrap();
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(3) && told.contains("4 of 8 runs are invalid"), "{told}");
    assert!(told.contains("1 of 10 operations failed (failed-max = 0)"), "{told}");
    let results = laboratory.results();
    let invalid = results.iter().find(|line| line["valid"] == false).unwrap();
    assert_eq!(invalid["points"][0]["measured"]["speed"], 3.0, "the number is kept");
    // A plan may tolerate some failures.
    let plan = PLAN.replace("repetitions = 2", "repetitions = 2\nfailed-max = 0.1");
    laboratory.plan("figure1", &plan);
    assert_eq!(laboratory.run(&["run", "--all"]).0, Some(0));
}

/// TCP over the loopback interface, from programs that don't know the plan.
const LOOPBACK: &str = r#"
figure = "Figure 1"
title = "TCP on one machine"
source = "section 1"
shows = "It works."
differs = "Nothing."
[network]
kind = "loopback"
tcp = "CONGESTION"
[runs]
seconds = 1
repetitions = 1
takes = 2
timeout = 60
[[measure]]
name = "speed"
label = "Speed"
unit = "1/s"
value = "{/rate_reached}"
[[series]]
name = "load"
title = "strandline load"
transport = "tcp"
client = "strandline load echo --serve --transport tcp --count 20 --rate 100 --json"
[[series]]
name = "ladder"
title = "strandline load associations"
transport = "tcp"
client = "strandline load associations --transport tcp --steps 20 --probes 5 --json"
measures = { speed = "{/0/steps/0/sweep_rate}" }
[[series]]
name = "perf"
title = "strandline perf"
transport = "tcp"
server = "strandline perf server --once --quiet"
client = "strandline perf client {to} --transport tcp --bytes 1M --quiet --json"
measures = { speed = "{/end/sum_received/bits_per_second}" }
[[series]]
name = "iperf3"
title = "iperf3"
transport = "tcp"
server = "iperf3 -s -1"
client = "iperf3 -c {to} -n 1M --json"
measures = { speed = "{/end/sum_received/bits_per_second}" }
server-stays = true
[draw]
kind = "bars"
"#;

#[test]
fn plan_chooses_congestion_control_on_loopback_too() {
    for congestion in ["reno", "cubic"] {
        let name = format!("loopback-{congestion}");
        let laboratory = Laboratory::new(&name, &LOOPBACK.replace("CONGESTION", congestion));
        let (code, _, told) = laboratory.run(&["run", "--all"]);
        assert_eq!(code, Some(0), "{told}");
        // What a busy host has disturbed is invalid, and was measured again.
        let mut results = laboratory.results();
        results.retain(|line| line["valid"] == true);
        assert_eq!(results.len(), 4);
        for line in results {
            let report = &line["client_report"];
            let used = [&report["sender_tcp_congestion"], &report["end"]["sender_tcp_congestion"]];
            let used =
                used.into_iter().chain([&report[0]["sender_tcp_congestion"]]).find(|it| it.is_string());
            assert_eq!(used.unwrap(), congestion, "{}", line["series"]);
            assert_eq!(line["network"]["tcp"], congestion);
        }
    }
}

#[test]
fn what_waits_for_something_is_only_listed() {
    let plan = PLAN.replace("[network]", "waits-for = \"a flying server\"\n[network]");
    let laboratory = Laboratory::new("waits", &plan);
    let (code, listed, _) = laboratory.run(&["list"]);
    assert!(code == Some(0) && listed.contains("waiting for: a flying server"), "{listed}");
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(0) && told.contains("nothing to run"), "{told}");
    assert_eq!(laboratory.run(&["report", "--unmeasured"]).0, Some(0));
    let report = fs::read_to_string(laboratory.folder.join("lab-report/index.html")).unwrap();
    assert!(report.contains("Waiting for: a flying server"));
}

#[test]
fn errors_say_what_to_do() {
    let laboratory = Laboratory::new("errors", &PLAN.replace("cat FOLDER/a.json", "iperf3000 -c {to}"));
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(1) && told.contains("program 'iperf3000' not found"), "{told}");
    assert!(told.contains("someone-2000/figure1"), "{told}");
    assert!(!laboratory.folder.join("lab-results").exists());
    let package = Laboratory::new("package", &PLAN.replace("cat FOLDER/a.json", "iperf3 -c {to}"));
    let output = package.lab(&["run", "--all"]).env("PATH", &package.folder).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("iperf3 is not installed: apt-get install iperf3"), "{told}");
    let (code, _, told) = laboratory.run(&["run", "nobody-1900"]);
    assert!(code == Some(1) && told.contains("strandline lab list"), "{told}");
    let (code, _, told) = laboratory.run(&["report"]);
    assert!(code == Some(1) && told.contains("strandline lab run"), "{told}");
    let (code, _, told) = laboratory.run(&["run"]);
    assert!(code == Some(1) && told.contains("--all") && told.contains("\n  someone-2000\n"), "{told}");
    assert!(told.contains("strandline lab run --short someone-2000"), "{told}");
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
    let commands =
        ["list", "run", "report", "trace", "simulate", "instructions", "together", "sequence", "site"];
    let (code, whole, _) = laboratory.run(&["--help"]);
    assert!(code == Some(0) && whole.contains("\n  strandline lab "), "{whole}");
    for command in commands {
        let (code, help, _) = laboratory.run(&[command, "--help"]);
        assert!(code == Some(0) && help.contains(&format!("\n  strandline lab {command} ")), "{help}");
        assert!(whole.contains(&format!("\n  {command} ")), "{command} is not in: {whole}");
    }
    // The short help lists all commands.
    let listed = whole.split_once("Commands:").unwrap().1.split_once("\n\n").unwrap().0;
    let listed = listed.lines().filter_map(|line| line.split_whitespace().next());
    assert_eq!(listed.filter(|name| *name != "help").count(), commands.len(), "{whole}");
}

#[test]
fn the_documentation_has_every_option() {
    let laboratory = Laboratory::new("documentation", PLAN);
    let documentation = include_str!("../../../docs/lab.md");
    for command in ["list", "run", "report", "trace"] {
        let (_, help, _) = laboratory.run(&[command, "--help"]);
        let options = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
        let options = options.map(|word| word.trim_end_matches(|c: char| !c.is_ascii_lowercase()));
        for option in options.filter(|option| !["", "help", "verbose", "log-format"].contains(option)) {
            assert!(documentation.contains(&format!("--{option}")), "{command} --{option}");
        }
    }
}

/// Sends datagrams that nobody takes; each is answered with ICMP. Prints how many packets arrived and were dropped.
const DATAGRAMS: &str = r#"
for i in {1..60}; do echo $i >/dev/udp/127.0.0.1/9; done
dropped=$(iptables -nvxL INPUT | awk '/DROP/ {print $1}')
awk '/^Ip:/ {all = $4} END {print all}' /proc/net/snmp |
    (read all; echo "{\"all\": $all, \"dropped\": ${dropped:-0}}")
"#;

#[test]
fn every_tenth_packet_is_dropped_on_loopback() {
    let plan = PLAN
        .replace("kind = \"none\"", "kind = \"loopback\"\nloss-every = \"{size}\"")
        .replace("values = [1, 10]", "values = [0, 10]")
        .replace("{/speed} * {size}", "{/dropped}")
        .replace("cat FOLDER/a.json", "bash FOLDER/datagrams")
        .replace("cat FOLDER/b.json", "bash FOLDER/datagrams");
    let laboratory = Laboratory::new("drops", &plan);
    fs::write(laboratory.folder.join("datagrams"), DATAGRAMS).unwrap();
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert_eq!(code, Some(0), "{told}");
    for line in laboratory.results() {
        let count = |what: &str| line["client_report"][what].as_u64().unwrap();
        let all = count("all");
        assert!(all >= 60, "{line}");
        assert_eq!(count("dropped"), if line["value"] == "10" { all / 10 } else { 0 }, "{line}");
    }
}

#[test]
fn site_is_made_before_the_program_runs() {
    let laboratory = Laboratory::new("site", PLAN);
    let (code, printed, told) = laboratory.run(&["site", "files", "--", "ls", "files"]);
    assert_eq!(code, Some(0), "{told}");
    assert_eq!(
        printed.lines().collect::<Vec<_>>(),
        ["100", "100k", "10k", "10m", "1k", "1m", "64m", "images", "page"]
    );
    let (code, _, told) = laboratory.run(&["site", "files", "--", "http3-quinn"]);
    assert!(code == Some(1) && told.contains("make lab-references"), "{told}");
}

/// A veth pair's option on a loopback interface, and a load that its network can't carry.
const NETWORKS: &str = r#"
figure = "Figure 1"
title = "Networks"
source = "section 1"
shows = "It works."
differs = "Nothing."
[network]
kind = "loopback"
[runs]
seconds = 1
repetitions = 1
takes = 2
timeout = 60
[[measure]]
name = "number"
label = "Number"
unit = ""
value = "{/0/mtu}"
[[series]]
name = "kernels"
title = "the kernel's MTU"
transport = "sctp"
client = "ip -j link show lo"
[[series]]
name = "plans"
title = "the plan's MTU"
transport = "sctp"
network = { mtu = 1400 }
client = "ip -j link show lo"
[[series]]
name = "slow"
title = "four times what the link carries"
transport = "sctp"
network = { kind = "netem", link = "rate=2mbit,rtt=1ms" }
server = "strandline perf server --once --quiet"
client = "strandline perf client {to} --size 1000 --time 0.5 --rate 8M --quiet --json"
measures = { number = "{/end/rate_reached}" }
[draw]
kind = "bars"
"#;

#[test]
fn networks_match_the_plan_and_missed_rates_show() {
    let laboratory = Laboratory::new("networks", NETWORKS);
    let (code, _, told) = laboratory.run(&["run", "--all"]);
    assert!(code == Some(3) && told.contains("of 1000 operations/s were reached"), "{told}");
    let results = laboratory.results();
    let of = |series: &str| results.iter().find(|line| line["series"] == series).unwrap();
    for (series, mtu) in [("kernels", 65_536), ("plans", 1400)] {
        assert_eq!(of(series)["points"][0]["measured"]["number"], f64::from(mtu), "{series}");
        assert_eq!((&of(series)["valid"], &of(series)["network"]["mtu"]), (&true.into(), &mtu.into()));
    }
    let reached = of("slow")["points"][0]["measured"]["number"].as_f64().unwrap();
    assert!(reached < 500.0 && of("slow")["client_report"]["end"]["rate_asked"] == 1000.0, "{reached}");
}

#[test]
fn an_interrupted_run_can_go_on() {
    let plan = PLAN.replace("cat FOLDER/b.json", "sleep 1000");
    let laboratory = Laboratory::new("interrupted", &plan);
    let mut child = laboratory.lab(&["run", "--all"]).stderr(Stdio::piped()).spawn().unwrap();
    // The second run is the long one.
    let mut told = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let reached = told.by_ref().map_while(Result::ok).any(|line| line.contains("2/8"));
    assert!(reached);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let last = told.map_while(Result::ok).last().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(last.contains("continues here"), "{last}");
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

#[test]
fn list_cut_short_by_its_reader_succeeds() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_strandline"));
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
    command.args(["lab", "list", "--experiments", folder]);
    let piped = std::process::Stdio::piped;
    let mut child = command.stdout(piped()).stderr(piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(141), ""));
}
