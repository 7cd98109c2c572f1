#![allow(clippy::unwrap_used)]

use std::os::unix::process::ExitStatusExt;

use super::*;

#[test]
fn leftovers_belong_to_dead_processes() {
    let names = ["bench-a1", "bench-a2", "bench-b1", "bench-a", "bench-a1x", "bench-a-1", "other"];
    assert_eq!(left(names.into_iter(), "bench-a", |pid| pid == 2), ["bench-a1"]);
}

#[test]
fn who_has_ended_does_not_run() {
    let mut one = Command::new("sleep").arg("600").spawn().unwrap();
    assert!(is_running(one.id()));
    one.kill().unwrap();
    one.wait().unwrap();
    assert!(!is_running(one.id()));
}

#[test]
fn those_named_are_ended_and_nobody_else() {
    let [mut one, mut other] = [(); 2].map(|()| Command::new("sleep").arg("600").spawn().unwrap());
    end(&format!("0\n1\n{}\n{}\nnone\n", std::process::id(), one.id()));
    assert_eq!(one.wait().unwrap().signal(), Some(9));
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}
