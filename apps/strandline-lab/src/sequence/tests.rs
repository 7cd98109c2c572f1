#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;

/// A program that listens until it is killed.
const SERVER: &str = "python3 -m http.server 0 --bind 127.0.0.1";

fn args(helpers: usize, every: Option<f64>, programs: &str) -> SequenceArgs {
    let programs = programs.split_whitespace().map(str::to_owned).collect();
    SequenceArgs { helpers, settle: 0.0, every, programs }
}

fn error(helpers: usize, programs: &str) -> String {
    format!("{:#}", measure(&args(helpers, None, programs)).unwrap_err())
}

#[test]
fn programs_run_one_after_another() {
    let measured = measure(&args(0, None, r#"sleep 0.2 + echo {"a":1}"#)).unwrap();
    assert_eq!(measured.len(), 2);
    assert!(measured[0]["seconds"].as_f64().unwrap() >= 0.2);
    assert_eq!(measured[0]["report"], Value::Null);
    assert_eq!(measured[1]["report"], json!({ "a": 1 }));
}

#[test]
fn programs_overlap_with_every() {
    let fifo = std::env::temp_dir().join(format!("strandline-sequence-{}", std::process::id()));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // The first ends only once the second has opened the other end.
    let path = fifo.display();
    let measured = measure(&args(0, Some(0.1), &format!("cat {path} + cp /dev/null {path}")));
    fs::remove_file(&fifo).unwrap();
    assert_eq!(measured.unwrap().len(), 2);
}

#[test]
fn helpers_listen_first_and_end_with_it() {
    let helper = {
        let command: Vec<String> = SERVER.split_whitespace().map(str::to_owned).collect();
        let mut helper = Process::start(&command, Stdio::null()).unwrap();
        helper.wait_for_a_socket().unwrap();
        assert!(helper.has_a_socket());
        helper.child.id()
    };
    assert!(!std::path::Path::new(&format!("/proc/{helper}")).exists());
    let measured = measure(&args(1, None, &format!("{SERVER} + true"))).unwrap();
    assert_eq!(measured.len(), 1);
}

#[test]
fn failures_name_the_program() {
    assert!(error(0, "true + false").contains("false: exit status: 1"));
    assert!(error(1, "true + true").contains("true ended before it opened a socket"));
    assert!(error(1, "true").contains("more programs than helpers"));
    assert!(error(0, "true +").contains("before or after +"));
    assert!(error(0, "no-such-program-anywhere").contains("no-such-program-anywhere"));
}

#[test]
fn open_sockets_of_a_table() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
                 0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0\n   \
                 1: 0100007F:1F91 0100007F:1F92 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0\n";
    assert_eq!(open_sockets(table).collect::<Vec<_>>(), ["4711"]);
    assert_eq!(open_sockets("header\nshort line\n").count(), 0);
}

#[test]
fn pauses_are_bounded() {
    assert_eq!(seconds("2.5"), Ok(2.5));
    for wrong in ["-1", "NaN", "inf", "4000", "soon"] {
        assert!(seconds(wrong).unwrap_err().contains(wrong), "{wrong}");
    }
}
