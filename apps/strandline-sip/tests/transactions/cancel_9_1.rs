use strandline_sip::transaction::{Protocol, Received};

use crate::harness::{World, request, response};

#[test]
fn cancel_waits_for_a_provisional_response() {
    let mut world = World::new();
    let (id, invite) = world.client("INVITE", Protocol::Udp);
    world.sent();
    assert!(!world.transactions.cancel(world.now, id, &mut world.out));
    assert!(world.answer(&response(&invite, 100)));
    assert!(world.transactions.cancel(world.now, id, &mut world.out));
    assert!(!world.transactions.cancel(world.now, id, &mut world.out), "once is enough");
    let sent = world.sent_whole();
    let [cancel] = &sent[..] else { panic!("{sent:?}") };
    let line = |name: &str| invite.lines().find(|line| line.starts_with(name)).unwrap();
    for line in ["CANCEL sip:b@example.com SIP/2.0", "CSeq: 5 CANCEL", "Max-Forwards: 70"]
        .into_iter()
        .chain(["Via", "Route", "From", "To", "Call-ID"].map(line))
    {
        assert!(cancel.lines().any(|found| found == line), "{line} is not in {cancel}");
    }
}

#[test]
fn cancel_is_sent_again_over_udp_and_its_answer_is_nobody_elses_business() {
    let mut world = World::new();
    let (id, invite) = world.client("INVITE", Protocol::Udp);
    world.answer(&response(&invite, 180));
    world.transactions.cancel(world.now, id, &mut world.out);
    let cancel = world.sent_whole().pop().unwrap();
    assert_eq!(world.run_until(2000), [500, 1500]);
    assert!(!world.answer(&response(&cancel, 200)));
    assert!(world.run_until(10_000).is_empty());
    assert!(world.answer(&response(&invite, 487)));
    assert_eq!(world.sent(), ["ACK sip:b@example.com SIP/2.0"]);
}

#[test]
fn an_invite_that_gets_no_answer_after_cancel_is_given_up_after_64_t1() {
    let mut world = World::new();
    let (id, invite) = world.client("INVITE", Protocol::Tcp);
    world.answer(&response(&invite, 180));
    world.run_until(10_000);
    world.transactions.cancel(world.now, id, &mut world.out);
    world.run_until(41_999);
    assert!(world.events().is_empty());
    world.run_until(42_000);
    assert_eq!(world.events(), ["timed out"]);
    assert!(world.is_empty());
}

#[test]
fn a_cancel_finds_the_invite_with_its_branch() {
    let mut world = World::new();
    let invite = request("INVITE", "z9hG4bKone");
    let id = world.server(&invite, Protocol::Udp);
    assert_eq!(world.receive(&request("CANCEL", "z9hG4bKone")), Received::Cancel(Some(id)));
    assert_eq!(world.receive(&request("CANCEL", "z9hG4bKtwo")), Received::Cancel(None));
    // There is none for a request that isn't an INVITE.
    world.server(&request("BYE", "z9hG4bKtwo"), Protocol::Udp);
    assert_eq!(world.receive(&request("CANCEL", "z9hG4bKtwo")), Received::Cancel(None));
}
