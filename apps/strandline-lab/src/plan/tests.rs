//! Tests of plans: parsing, and messages about mistakes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use super::expression::Expression;
use super::template::{Variables, fill};
use super::*;
use crate::network::NetworkKind;

/// A complete plan, to insert mistakes into.
pub(crate) const WHOLE: &str = r#"
figure = "Figure 1"
title = "Throughput"
source = "section 1"
shows = "It grows."
differs = "Everything, {ours.throughput@10} Mbit/s."

[network]
kind = "netem"
link = "rate=100mbit,rtt=10ms"
to-right = "loss-every={every}"

[runs]
seconds = 8
repetitions = 3

[short]
seconds = 2
repetitions = 2
values = [10]
series = ["ours"]

[sweep]
variable = "every"
values = [100, 10]
x = [1, 10]
label = "Packets lost"
unit = "%"
scale = "log"

[[measure]]
name = "throughput"
label = "Throughput"
unit = "Mbit/s"
value = "{/end/bits} / 1e6"

[[series]]
name = "tcp"
title = "TCP"
transport = "tcp"
network = { tcp = "reno" }
server = "serve"
client = "send {to} --time {seconds} --seed {seed}"

[[series]]
name = "ours"
title = "Strandline"
transport = "sctp"
variables = { frequency = 2 }
server = "serve"
client = "send {to} --time {whole-seconds} --sacks {frequency}"
measures = { throughput = "{server:/bits} / {every}" }

[draw]
kind = "lines"

[[published]]
name = "paper"
title = "TCP of old"
transport = "tcp"
values = { throughput = { "10" = 50, "100" = 90 } }

[[claim]]
says = "SCTP is above TCP"
value = "{ours.throughput@10} / {tcp.throughput@10}"
min = 1
"#;

/// A plan in which one run gives many points.
pub(crate) fn many_points() -> String {
    WHOLE
        .replace("values = [100, 10]\nx = [1, 10]", "each = \"/steps\"\nvalue = \"{/held}\"")
        .replace("\nvalues = [10]\n", "\n")
        .replace("loss-every={every}", "")
        .replace("{server:/bits} / {every}", "{/bits}")
        .replace("{ours.throughput@10} Mbit/s", "nothing")
}

/// Parses a plan from text as if it were experiments/paper/plan.toml.
pub(crate) fn read(text: &str) -> Result<Plan, String> {
    let folder = std::env::temp_dir().join(format!("lab-plans-{}", std::process::id())).join("paper");
    std::fs::create_dir_all(&folder).unwrap();
    // Gives each test a folder of its own, because tests run in parallel.
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = folder.join(format!("plan{number}.toml"));
    std::fs::write(&path, text).unwrap();
    let found = Found { paper: "paper".to_owned(), name: "plan".to_owned(), path: path.clone() };
    let plan = load(&found).map_err(|error| format!("{error:#}"));
    std::fs::remove_file(&path).unwrap();
    plan
}

fn experiments() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

#[test]
fn every_plan_of_the_repository_is_sound() {
    let found = find(&experiments(), &[]).unwrap();
    assert!(found.len() >= 8, "{found:?}");
    for found in found {
        let plan = load(&found).unwrap_or_else(|error| panic!("{error:#}"));
        let waits = plan.waits_for.is_some();
        assert_eq!(plan.runs(Mode::Whole).unwrap().is_empty(), waits, "{}", found.path.display());
        paper(&found).unwrap_or_else(|error| panic!("{error:#}"));
    }
}

#[test]
fn plans_are_found_by_paper_name_and_file() {
    let all = find(&experiments(), &[]).unwrap();
    let paper = find(&experiments(), &["jani-kant-2005".to_owned()]).unwrap();
    assert!(!paper.is_empty() && paper.iter().all(|found| found.paper == "jani-kant-2005"));
    let one = find(&experiments(), &["jani-kant-2005/figure5".to_owned()]).unwrap();
    assert_eq!(one.len(), 1);
    let file = experiments().join("jani-kant-2005/figure5.toml").to_string_lossy().into_owned();
    assert_eq!(find(&experiments(), &[file]).unwrap(), one);
    assert!(all.iter().all(|found| found.name != "paper" && found.name != "published"));
    let error = find(&experiments(), &["nobody-1900".to_owned()]).unwrap_err();
    assert!(error.to_string().contains("strandline lab list"), "{error}");
    let error = find(Path::new("/does/not/exist"), &[]).unwrap_err();
    assert!(error.to_string().contains("--experiments"), "{error}");
}

#[test]
fn runs_alternate_and_have_their_variables() {
    let plan = read(WHOLE).unwrap();
    let runs = plan.runs(Mode::Whole).unwrap();
    let order: Vec<_> = runs.iter().map(|run| (run.repetition, run.value.unwrap(), run.series)).collect();
    assert_eq!(order[..5], [(1, 0, 0), (1, 0, 1), (1, 1, 0), (1, 1, 1), (2, 0, 0)]);
    assert_eq!(runs.len(), 3 * 2 * 2);
    assert_eq!(runs[0].client, "send 10.0.1.2 --time 8 --seed 1");
    assert_eq!(runs[3].client, "send 10.0.1.2 --time 8 --sacks 2");
    assert_eq!((runs[0].network.tcp(), runs[1].network.tcp()), ("reno", "cubic"));
    assert_eq!(runs[2].network.to_right, "loss-every=10");
    // All series of a repetition have the same seed; the next repetition has another.
    assert_eq!((runs[0].seed, runs[3].seed, runs[4].seed), (1, 1, 2));
    let short = plan.runs(Mode::Short).unwrap();
    assert_eq!(short.len(), 2);
    assert!(short.iter().all(|run| run.series == 1 && run.value == Some(1)));
    assert!(short[0].client.contains("--time 2"));
}

#[test]
fn series_may_be_measured_at_some_values() {
    let named = "title = \"TCP\"\ntransport = \"tcp\"\n";
    let text = WHOLE.replace(named, &format!("{named}values = [100]\n"));
    let plan = read(&text).unwrap();
    let order = |mode| -> Vec<_> {
        plan.runs(mode).unwrap().iter().map(|run| (run.repetition, run.value.unwrap(), run.series)).collect()
    };
    assert_eq!(order(Mode::Whole)[..4], [(1, 0, 0), (1, 0, 1), (1, 1, 1), (2, 0, 0)]);
    assert_eq!(order(Mode::Short), [(1, 1, 1), (2, 1, 1)]);
    let wrong = read(&text.replace("values = [100]", "values = [7]")).unwrap_err();
    assert!(wrong.contains("series 'tcp': values: 7 is not one of"), "{wrong}");
}

#[test]
fn a_key_is_of_what_is_measured() {
    let keys = |text: &str| -> Vec<String> {
        read(text).unwrap().runs(Mode::Whole).unwrap().into_iter().map(|run| run.key).collect()
    };
    let before = keys(WHOLE);
    let unique: std::collections::BTreeSet<_> = before.iter().collect();
    assert_eq!(unique.len(), before.len());
    assert_eq!(before, keys(&WHOLE.replace("It grows.", "It shrinks.")));
    assert_eq!(before, keys(&format!("# A comment.\n{WHOLE}")));
    let other = keys(&WHOLE.replace("--sacks {frequency}", "--sacks 6"));
    // The keys of the other series stay the same.
    assert_eq!(before.iter().zip(&other).filter(|(a, b)| a == b).count(), before.len() / 2);
    assert_ne!(before, keys(&WHOLE.replace("rtt=10ms", "rtt=11ms")));
    // Keys depend on how the run is measured, and with what.
    for (from, to) in [
        ("name = \"throughput\"\nlabel", "name = \"goodput\"\nlabel"),
        ("variables = { frequency = 2 }", "variables = { frequency = 2, other = 3 }"),
        ("variable = \"every\"", "variable = \"each\""),
        ("--sacks {frequency}\"", "--sacks {frequency}\"\nserver-stays = true"),
        ("repetitions = 3", "repetitions = 3\nfailed-max = 0.1"),
        ("repetitions = 3", "repetitions = 3\nrate-min = 0.5"),
    ] {
        let text = WHOLE.replace(from, to);
        let text = match to {
            "name = \"goodput\"\nlabel" => {
                text.replace("throughput@", "goodput@").replace("throughput =", "goodput =")
            }
            "variable = \"each\"" => text.replace("{every}", "{each}"),
            _ => text,
        };
        assert_ne!(text, WHOLE);
        assert!(keys(&text).iter().any(|key| !before.contains(key)), "{to}");
    }
    let many = many_points();
    let other = many.replace("{/held}", "{/asked}");
    assert!(keys(&many).iter().zip(keys(&other)).all(|(one, other)| *one != other), "where a point stands");
    // Keys differ even if only an expression contains the variable.
    let alike = keys(&WHOLE.replace("loss-every={every}", "loss=1%"));
    assert_eq!(alike.iter().collect::<std::collections::BTreeSet<_>>().len(), alike.len());
}

#[test]
fn mistakes_show_their_place_and_remedy() {
    for (right, wrong, hints) in [
        ("kind = \"netem\"", "kind = \"wifi\"", vec!["wifi", "`netem`", "`veth`", "line 9"]),
        ("title = \"Throughput\"", "titel = \"Throughput\"", vec!["titel", "`title`", "line 3"]),
        ("[draw]\nkind = \"lines\"", "", vec!["missing field `draw`"]),
        ("seconds = 8", "seconds = \"8\"", vec!["invalid type: string", "line 14"]),
        ("seconds = 8", "seconds = 0", vec!["seconds = 0", "0.01 to 3600"]),
        ("repetitions = 3", "repetitions = 3\nfailed-max = 5", vec!["failed-max = 5", "0 to 1"]),
        ("repetitions = 3", "repetitions = 0", vec!["repetitions = 0", "1 to 1000"]),
        ("--seed {seed}", "--seed {sead}", vec!["{sead}", "{seed}"]),
        ("--seed {seed}", "--seed {seed", vec!["unclosed {"]),
        ("rtt=10ms", "rtt=10", vec!["network of series 'tcp'", "30ms"]),
        ("[network]\n", "[network]\npaths = 0\n", vec!["paths must be at least 1"]),
        ("[network]\n", "[network]\npaths = 99\n", vec!["at most 16 paths"]),
        ("[network]\n", "[network]\npaths = 2\nschedule = \"1s path=3 cut\"\n", vec!["no path 3"]),
        ("loss-every={every}", "lose={every}", vec!["'lose'", "loss=1%"]),
        ("[network]\n", "[network]\nloss-every = \"10\"\n", vec!["loss-every requires", "loopback"]),
        ("\"{/end/bits} / 1e6\"", "\"{/end/bits} / \"", vec!["measure 'throughput'", "at the end"]),
        ("\"{/end/bits} / 1e6\"", "\"({/end/bits}\"", vec!["unclosed ("]),
        ("\"{/end/bits} / 1e6\"", "\"{sender:/end/bits}\"", vec!["{sender:/end/bits}", "{server:/pointer}"]),
        ("name = \"tcp\"", "name = \"TCP!\"", vec!["'TCP!'", "a-z, 0-9"]),
        ("name = \"tcp\"", "name = \"ours\"", vec!["'ours'", "twice"]),
        ("name = \"paper\"", "name = \"ours\"", vec!["'ours'", "twice"]),
        ("values = [10]", "values = [11]", vec!["short: values: 11"]),
        ("series = [\"ours\"]", "series = [\"us\"]", vec!["short: series", "'us'"]),
        ("x = [1, 10]", "x = [1]", vec!["x must have 2 numbers"]),
        ("values = [100, 10]", "values = []", vec!["sweep: values, or each"]),
        ("\"10\" = 50", "\"11\" = 50, \"many\" = 1", vec!["published 'paper'", "'many'"]),
        (
            "title = \"TCP of old\"",
            "title = \"O\"\ncomputed = [\"cost\"]",
            vec!["computed: values lack 'cost'"],
        ),
        (
            "title = \"TCP of old\"",
            "title = \"O\"\ncomputed = [\"throughput\"]",
            vec!["computed: source is required"],
        ),
        ("kind = \"lines\"", "kind = \"lines\"\nsame = 2", vec!["draw: same = 2", "0 to 1"]),
        ("throughput@10} / {tcp", "throughput} / {tcp", vec!["{ours.throughput@VALUE}"]),
        ("{tcp.throughput@10}", "{tcp.goodput@10}", vec!["no measure 'goodput'", "are throughput"]),
        ("{tcp.throughput@10}", "{quic.throughput@10}", vec!["no series 'quic'"]),
        ("{tcp.throughput@10}", "{tcp.throughput@7}", vec!["'7' is not one of the sweep's values"]),
        ("min = 1\n", "\n", vec!["min or max is required"]),
        ("{ours.throughput@10} Mbit/s", "{hours.throughput@10}", vec!["differs: no series 'hours'"]),
        (
            "{ throughput = \"{server:/bits} / {every}\" }",
            "{ goodput = \"1\" }",
            vec!["no measure 'goodput'"],
        ),
        ("kind = \"netem\"", "kind = \"veth\"", vec!["kind = \"netem\""]),
        ("[network]\n", "[network]\nmtu = 70000\n", vec!["mtu = 70000", "576 to 65535"]),
        ("[network]\n", "[network]\noffloads = true\n", vec!["offloads", "kind = \"veth\""]),
        ("kind = \"netem\"", "kind = \"simulator\"", vec!["client", "--link {link}"]),
        (
            "\"rate=100mbit,rtt=10ms\"\nto-right = \"loss-every={every}\"",
            "\"\"\ntcp = 3",
            vec!["tcp", "string"],
        ),
    ] {
        assert!(WHOLE.contains(right), "{right}");
        let message = read(&WHOLE.replacen(right, wrong, 1)).expect_err(wrong);
        assert!(message.contains("plan") && message.contains(".toml: "), "{message}");
        for hint in hints {
            assert!(message.contains(hint), "{wrong}: '{hint}' is not in: {message}");
        }
    }
}

#[test]
fn expressions_have_their_usual_meaning() {
    let value = |text: &str| {
        let known = |name: &str| match name {
            "a" => Ok(3.0),
            "b.c@1 %" => Ok(4.0),
            other => Err(format!("no {other}")),
        };
        Expression::parse(text).and_then(|expression| expression.value(&known))
    };
    assert_eq!(value("1 + 2 * 3 - 4 / 2"), Ok(5.0));
    assert_eq!(value("(1 + 2) * ({a} - 1)"), Ok(6.0));
    assert_eq!(value("8 / 2 / 2"), Ok(2.0));
    assert_eq!(value("{b.c@1 %} * 1e-3 * 1.5E+3"), Ok(6.0));
    assert_eq!(value("max(1, {a}, 2) - min({b.c@1 %}, 2 * 1) * max(5)"), Ok(-7.0));
    assert_eq!(value("{x}"), Err("no x".to_owned()));
    assert!(value("1 / (2 - 2)").unwrap_err().contains("division by zero"));
    for wrong in ["", "1 +", "(1", "1)", "{a", "a", "1 1", "1e", "--1", "max(1,", "max(,1)", "(1, 2)"] {
        assert!(Expression::parse(wrong).is_err(), "{wrong}");
    }
    assert!(Expression::parse(&"(".repeat(10_000)).is_err());
    assert_eq!(Expression::parse("{a} + {b} * {a}").unwrap().names(), ["a", "b", "a"]);
}

#[test]
fn long_expressions_are_refused() {
    let chain = |operations: usize| Expression::parse(&("1".to_owned() + &"*1".repeat(operations)));
    assert_eq!(chain(1000).and_then(|expression| expression.value(&|_| Ok(0.0))), Ok(1.0));
    assert!(chain(1001).unwrap_err().contains("limited to 1000 operations"));
    assert!(chain(1_000_000).is_err());
}

#[test]
fn variables_are_filled_in() {
    let variables = Variables::from([("to".to_owned(), "10.0.1.2".to_owned())]);
    assert_eq!(fill("x {to}:{to} y", &variables), Ok("x 10.0.1.2:10.0.1.2 y".to_owned()));
    assert!(fill("{from}", &variables).unwrap_err().contains("{to}"));
    assert!(fill("to}", &variables).is_err());
}

#[test]
fn recorded_congestion_control_is_the_actual_one() {
    let runs = read(WHOLE).unwrap().runs(Mode::Whole).unwrap();
    let mut network = runs[0].network.clone();
    assert_eq!((network.kind, network.as_made().tcp()), (NetworkKind::Netem, "reno"));
    network.kind = NetworkKind::Loopback;
    assert_eq!(network.as_made().tcp(), "reno");
    network.kind = NetworkKind::None;
    let system = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    assert_eq!(network.as_made().tcp(), system.trim());
    network.kind = NetworkKind::Simulator;
    assert_eq!(network.as_made().tcp(), "none");
}

/// Returns a plan with one simulated series.
fn simulated(network: &str) -> Result<Plan, String> {
    let series = WHOLE.find("[[series]]").unwrap()..WHOLE.find("[draw]").unwrap();
    let one = "[[series]]\nname = \"ours\"\ntitle = \"S\"\ntransport = \"sctp\"\nclient = \"simulate {link} {every}\"\n";
    let mut text = WHOLE.to_owned();
    text.replace_range(series, one);
    let claims = text.find("[[claim]]").unwrap();
    text.truncate(claims);
    read(
        &text
            .replace("kind = \"netem\"", "kind = \"simulator\"")
            .replace("to-right = \"loss-every={every}\"", network),
    )
}

#[test]
fn what_nothing_would_apply_is_refused() {
    assert!(simulated("").is_ok());
    for (network, hint) in [
        ("to-right = \"loss=1%\"", "to-right: a simulation"),
        ("to-left = \"loss=1%\"", "to-left: a simulation"),
        ("schedule = \"1s cut\"", "schedule: a simulation"),
        ("paths = 2", "several paths: a simulation"),
        ("late-limit = \"1ms\"", "late-limit: a simulation"),
        ("emulator-core = 1", "emulator-core: a simulation"),
        ("mtu = 9000", "mtu applies to network devices"),
        ("tcp = \"reno\"", "tcp = \"reno\" has no effect"),
        ("offloads = true", "not \"simulator\""),
    ] {
        let told = simulated(network).expect_err(network);
        assert!(told.contains(hint), "{network}: {told}");
    }
}

#[test]
fn loopback_uses_the_plans_or_kernels_mtu() {
    let text = WHOLE.replace("link = \"rate=100mbit,rtt=10ms\"\nto-right = \"loss-every={every}\"", "");
    let network = |kind: &str| {
        let plan = read(&text.replace("kind = \"netem\"", kind));
        plan.map(|plan| plan.runs(Mode::Whole).unwrap()[0].network.clone())
    };
    let told = |kind: &str| network(kind).unwrap().as_made().mtu;
    assert_eq!(told("kind = \"loopback\""), Some(65_536));
    assert_eq!(told("kind = \"loopback\"\nmtu = 1500"), Some(1500));
    assert_eq!(told("kind = \"veth\""), Some(1500));
    assert_eq!(told("kind = \"netem\"\nmtu = 9000"), Some(9000));
    let wrong = network("kind = \"loopback\"\nmtu = 100").unwrap_err();
    assert!(wrong.contains("576 to 65536"), "{wrong}");
}

#[test]
fn a_network_is_told_whole() {
    let mut network = read(WHOLE).unwrap().runs(Mode::Whole).unwrap()[2].network.clone();
    network.paths = 2;
    network.schedule = "3s path=1 cut".to_owned();
    network.cores = Some(["0".to_owned(), "1".to_owned()]);
    let told = "netem; 2 paths; rate=100mbit,rtt=10ms; to the right loss-every=10; schedule 3s path=1 cut; mtu=1500; \
                cores 0 and 1; tcp=reno";
    assert_eq!(network.as_made().to_string(), told);
    network.kind = NetworkKind::Veth;
    network.offloads = true;
    assert!(network.to_string().contains("; offloads; "));
}

/// `make report` should take at most a quarter of an hour, including time for repeated tries.
#[test]
fn make_report_measures_for_under_twelve_minutes() {
    let makefile = std::fs::read_to_string(experiments().join("../Makefile")).unwrap();
    let (_, words) = makefile.split_once("lab run --short ").unwrap();
    let papers: Vec<String> =
        words.split_whitespace().take_while(|word| *word != "||").map(str::to_owned).collect();
    let (mut seconds, mut runs) = (0.0, 0);
    for found in find(&experiments(), &papers).unwrap() {
        let short = load(&found).unwrap().runs(Mode::Short).unwrap();
        seconds += short.iter().map(|run| run.takes).sum::<f64>();
        runs += short.len();
    }
    assert!(runs > 100 && seconds < 12.0 * 60.0, "{runs} runs, {seconds} s");
}

#[test]
fn plans_have_the_numbers_of_published_toml() {
    let text = std::fs::read_to_string(experiments().join("osterdahl-2005/published.toml")).unwrap();
    let printed: toml::Value = toml::from_str(&text).unwrap();
    let columns = [
        ("loopback", "no_drops"),
        ("path", "no_drops"),
        ("loopback-drops", "every_10th_dropped"),
        ("path-drops", "every_10th_dropped"),
    ];
    for (name, column) in columns {
        let found = find(&experiments(), &[format!("osterdahl-2005/tables-{name}")]).unwrap();
        let plan = load(&found[0]).unwrap();
        for (table, published) in (1..=4).zip(&plan.published) {
            let PublishedValue::Each(values) = &published.values["throughput"] else { panic!("{name}") };
            let printed: BTreeMap<String, f64> =
                printed[&format!("table{table}")][column].clone().try_into().unwrap();
            assert_eq!(*values, printed, "{name}, table {table}");
        }
        assert_eq!(plan.published.len(), 4);
    }
}

#[test]
fn figure_8_goes_on_to_a_million() {
    let found = find(&experiments(), &["ono-schulzrinne-2008-sctp/figure8-million".to_owned()]).unwrap();
    let plan = load(&found[0]).unwrap();
    let clients: Vec<_> = plan.runs(Mode::Whole).unwrap().into_iter().map(|run| run.client).collect();
    let sctp = clients.iter().filter(|client| !client.contains("--transport tcp"));
    assert!(
        sctp.clone().count() == 2 && sctp.clone().all(|client| client.contains(",1000000 ")),
        "{clients:?}"
    );
}
