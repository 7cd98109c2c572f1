#![allow(clippy::unwrap_used)]

use anyhow::bail;

use super::*;

#[test]
fn half_switched_link_is_switched_again() {
    let mut state = State { link: Some(Link::Default) };
    let mut switched = Vec::new();
    let mut record = |feature: &str, value: &str| {
        switched.push(format!("{feature} {value}"));
        Ok(())
    };
    state.switch(Link::Default, &mut record).unwrap();
    state.switch(Link::OffloadsOff, &mut record).unwrap();
    state.switch(Link::OffloadsOff, &mut record).unwrap();
    assert_eq!(switched, ["tso off", "gso off", "gro off", "tx-udp-segmentation on"]);
    let failing = |feature: &str, _: &str| if feature == "gso" { bail!("no such feature") } else { Ok(()) };
    assert!(state.switch(Link::Default, failing).is_err());
    // Back to the previous state: TSO has been switched since.
    let mut again = 0;
    let count = |_: &str, _: &str| {
        again += 1;
        Ok(())
    };
    state.switch(Link::OffloadsOff, count).unwrap();
    assert_eq!(again, 4);
}

#[test]
fn every_offload_has_a_switch() {
    let mut state = State { link: Some(Link::Default) };
    let mut switched = Vec::new();
    let record = |feature: &str, value: &str| {
        switched.push(format!("{feature} {value}"));
        Ok(())
    };
    state.switch(Link::AllOffloadsOff, record).unwrap();
    assert_eq!(switched, ["tso off", "gso off", "gro off", "tx-udp-segmentation off"]);
}

#[test]
fn unreached_state_is_tried_again() {
    let mut state = State { link: Some(Link::Default) };
    let failing = |feature: &str, _: &str| if feature == "gro" { bail!("no such feature") } else { Ok(()) };
    assert!(state.switch(Link::GsoInSoftware, failing).is_err());
    assert!(
        state.switch(Link::GsoInSoftware, failing).is_err(),
        "it isn't there only because it was asked for"
    );
    let mut switched = Vec::new();
    let mut record = |feature: &str, value: &str| {
        switched.push(format!("{feature} {value}"));
        Ok(())
    };
    state.switch(Link::GsoInSoftware, &mut record).unwrap();
    state.switch(Link::GsoInSoftware, &mut record).unwrap();
    assert_eq!(switched, ["tso on", "gso on", "gro off", "tx-udp-segmentation off"], "once, and all of it");
}
