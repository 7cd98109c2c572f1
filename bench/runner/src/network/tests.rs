#![allow(clippy::unwrap_used)]

use anyhow::bail;

use super::*;

#[test]
fn a_link_that_is_half_switched_is_switched_again() {
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
    // Back to what it was before: TSO has been switched since.
    let mut again = 0;
    let count = |_: &str, _: &str| {
        again += 1;
        Ok(())
    };
    state.switch(Link::OffloadsOff, count).unwrap();
    assert_eq!(again, 4);
}
