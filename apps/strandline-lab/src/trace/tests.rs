#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use clap::Parser;

use super::draw::{sequence, window};
use super::*;
use crate::figure::{Layer, Look};

const TRACE: &str = r#"{"event":"start","t":0.0,"format":1,"version":"0.1.0"}
{"event":"data","t":0.1,"port":5,"peer":"10.0.0.2:9899","sent":true,"first":4294967295,"last":0,"bytes":2000}
{"event":"path","t":0.1,"port":5,"peer":"10.0.0.2:9899","cwnd":14000,"ssthresh":4294967295,"flight":2000}
{"event":"data","t":0.2,"port":5,"peer":"10.0.0.2:9899","sent":true,"first":1,"last":1,"bytes":1000}
{"event":"sack","t":0.3,"port":5,"peer":"10.0.0.2:9899","sent":false,"cumulative":4294967295,"a_rwnd":9,"gaps":[[2,2]],"duplicates":0}
{"event":"data","t":0.4,"port":5,"peer":"10.0.0.3:9899","sent":true,"first":0,"last":0,"bytes":1000,"again":"lost"}
{"event":"path","t":0.4,"port":5,"peer":"10.0.0.3:9899","cwnd":7000,"ssthresh":7000,"flight":1000}
{"event":"association","t":0.4,"port":5,"peer_rwnd":100000}
{"event":"what later versions add","t":0.4}
{"event":"data","t":0.5,"port":6,"peer":"10.0.0.2:9899","sent":false,"first":7,"last":7,"bytes":100}
"#;

const ALL: (f64, f64) = (0.0, f64::INFINITY);

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: TraceArgs,
}

fn args(more: &[&str]) -> TraceArgs {
    Command::parse_from(["trace", "run.jsonl"].iter().chain(more)).args
}

fn parse(text: &str) -> Result<Trace> {
    Trace::parse(text.as_bytes())
}

fn points<'a>(drawing: &'a Timeline, title: &str) -> &'a [(f64, f64)] {
    let layer = drawing.layers.iter().find(|layer| layer.title == title);
    &layer.unwrap_or_else(|| panic!("no {title}: {drawing:?}")).points
}

#[test]
fn trace_events_are_drawn_in_place() {
    let trace = parse(TRACE).unwrap();
    assert_eq!((trace.busiest(), trace.ports(), trace.end()), (Some(5), vec![5, 6], 0.5));
    let drawing = sequence(&trace, 5, ALL);
    assert_eq!(points(&drawing, "sent"), [(0.1, 2.0), (0.2, 3.0)]);
    assert_eq!(points(&drawing, "retransmission: loss"), [(0.4, 2.0)]);
    assert_eq!(points(&drawing, "acknowledged cumulatively"), [(0.3, 1.0)]);
    assert_eq!(points(&drawing, "acknowledged beyond a gap"), [(0.3, 3.0)]);
    // The other direction if that carried more data.
    assert_eq!(points(&sequence(&trace, 6, ALL), "received"), [(0.5, 1.0)]);
    // A part of the trace counts from the same TSN.
    assert_eq!(points(&sequence(&trace, 5, (0.15, 0.25)), "sent"), [(0.2, 3.0)]);
}

#[test]
fn unknown_reason_is_drawn_as_well() {
    let trace = parse(&TRACE.replace("\"again\":\"lost\"", "\"again\":\"a whim\"")).unwrap();
    let drawing = sequence(&trace, 5, ALL);
    assert_eq!(points(&drawing, "retransmission: a whim"), [(0.4, 2.0)]);
    assert!(drawing.svg(WIDTH, Theme::Page).contains("retransmission: a whim"));
}

#[test]
fn each_path_has_its_own_window_scale() {
    let drawing = window(&parse(TRACE).unwrap(), 5, ALL);
    assert_eq!(points(&drawing, "cwnd to 10.0.0.2:9899"), [(0.1, 14.0)]);
    assert_eq!(points(&drawing, "in flight to 10.0.0.3:9899"), [(0.4, 1.0)]);
    assert_eq!(points(&drawing, "ssthresh to 10.0.0.2:9899"), [], "no threshold yet");
    assert_eq!(points(&drawing, "ssthresh to 10.0.0.3:9899"), [(0.4, 7.0)]);
    assert_eq!(points(&drawing, "the peer's window (off the scale: up to 100)"), [(0.4, 21.0)]);
    for theme in [Theme::Page, Theme::Picture] {
        let svg = drawing.svg(WIDTH, theme);
        assert!(svg.contains("cwnd to 10.0.0.3:9899") && svg.ends_with("</svg>"), "{svg}");
    }
    let start: &[u8] = if EXTENSION == "png" { b"\x89PNG" } else { b"<svg" };
    assert!(picture(&drawing.svg(WIDTH, Theme::Picture)).unwrap().starts_with(start));
}

#[test]
fn a_part_of_a_trace_fills_its_drawing() {
    let mut text = TRACE.lines().next().unwrap().to_owned() + "\n";
    for n in 0..2000_u32 {
        let t = f64::from(n) / 100.0;
        text += &format!(
            "{{\"event\":\"data\",\"t\":{t},\"port\":5,\"peer\":\"10.0.0.2:9899\",\"sent\":true,\"first\":{n},\"last\":{n},\"bytes\":9}}\n"
        );
    }
    let trace = parse(&text).unwrap();
    let whole = sequence(&trace, 5, ALL).svg(WIDTH, Theme::Page);
    assert!([">0</text>", ">500</text>", ">2000</text>"].iter().all(|tick| whole.contains(tick)), "{whole}");
    // TSNs 1,001 to 1,051.
    let part = sequence(&trace, 5, (10.0, 10.5)).svg(WIDTH, Theme::Page);
    assert!(
        [">1000</text>", ">1020</text>", ">1060</text>"].iter().all(|tick| part.contains(tick)),
        "{part}"
    );
    assert!(!part.contains(">0</text>") && !part.contains(">500</text>"), "{part}");
}

#[test]
fn many_points_make_no_large_drawing() {
    let crowd = |look| Layer {
        title: "crowd".to_owned(),
        colour: (crate::plan::Transport::Sctp, 0),
        look,
        points: (0..200_000).map(|n| (f64::from(n) * 1e-5, f64::from(n % 1000))).collect(),
    };
    for (look, bytes_max) in [(Look::Steps, 100_000), (Look::Dots, 6_000_000)] {
        let drawing = Timeline {
            title: "t".to_owned(),
            label: "y".to_owned(),
            from_zero: true,
            layers: vec![crowd(look)],
        };
        let bytes = drawing.svg(WIDTH, Theme::Picture).len();
        assert!(bytes < bytes_max, "{look:?}: {bytes}");
    }
}

#[test]
fn a_line_without_end_is_an_error() {
    let error = format!("{:#}", Trace::read(std::path::Path::new("/dev/zero")).unwrap_err());
    assert!(error.contains("/dev/zero") && error.contains("line 1 is longer than 1 MiB"), "{error}");
}

#[test]
fn what_is_no_trace_is_told() {
    let told = |text: &str| format!("{:#}", parse(text).unwrap_err());
    assert!(told("hello\n").contains("line 1 is malformed"));
    assert!(told("{\"event\":\"path\"}\n").contains("line 1"));
    assert!(told("{\"event\":\"other\"}\n").contains("not a trace"));
    assert!(told("{\"event\":\"start\",\"format\":9}\n").contains("format 9"));
    let broken = TRACE.replacen("\"port\":5", "\"port\":-5", 1);
    assert!(told(&broken).contains("line 2"));
    // The trace of a killed program is drawn up to its end.
    let cut = TRACE.get(..TRACE.len() - 30).unwrap();
    let read = parse(cut).unwrap();
    assert_eq!((read.ports(), read.cut), (vec![5], Some(10)));
    assert_eq!(parse(TRACE).unwrap().cut, None);
}

#[test]
fn missing_trace_item_error_lists_the_present() {
    let trace = parse(TRACE).unwrap();
    let told = |more: &[&str]| format!("{:#}", draw(&trace, &args(more)).unwrap_err());
    assert!(told(&["--port", "9"]).contains("the trace has ports [5, 6]"));
    assert!(told(&["--from", "3"]).contains("ends at 0.500 s"));
    let empty = parse(TRACE.lines().next().unwrap()).unwrap();
    assert!(format!("{:#}", draw(&empty, &args(&[])).unwrap_err()).contains("no DATA"));
    assert!(page("a<b", &draw(&trace, &args(&[])).unwrap()).contains("<h1>a&lt;b</h1>"));
}
