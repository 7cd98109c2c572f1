#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use rustix::thread::sched_getaffinity;

use super::*;

/// Starts an emulator without paths.
fn started() -> Emulator {
    let topology = Topology {
        paths: Vec::new(),
        mtu: 1500,
        ipv6: false,
        tcp: "cubic".to_owned(),
        schedule: Vec::new(),
        seed: 1,
    };
    let moment = Duration::from_micros(30);
    Emulator::start(Vec::new(), &topology, Waiting { spin: moment, gather: moment }).unwrap()
}

fn cores(thread: Option<Pid>) -> Vec<usize> {
    let cores = sched_getaffinity(thread).unwrap();
    (0..CpuSet::MAX_CPU).filter(|core| cores.is_set(*core)).collect()
}

#[test]
fn emulator_keeps_its_processor_for_itself() {
    let emulator = started();
    let (thread, before) = (Pid::from_raw(emulator.thread_id()), cores(None));
    assert_eq!(cores(thread), before);
    let last = *before.last().unwrap();
    emulator.keep_to(last).unwrap();
    assert_eq!((cores(thread), cores(None)), (vec![last], before));
    emulator.stop().unwrap();
}

#[test]
fn missing_processor_is_an_error() {
    let emulator = started();
    for core in [CpuSet::MAX_CPU - 1, usize::MAX] {
        let told = format!("{:#}", emulator.keep_to(core).unwrap_err());
        assert!(told.contains(&format!("processor {core}")), "{told}");
    }
    emulator.stop().unwrap();
}
