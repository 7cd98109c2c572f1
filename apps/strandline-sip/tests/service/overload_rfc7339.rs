use strandline_sip::service::Load;

use crate::harness::{Phone, Sent, World, response};

const NEIGHBOUR: &str = ";oc;oc-algo=\"loss,rate\";rport";

fn refused(world: &mut World, phone: &Phone, text: &str) -> Vec<Sent> {
    world.service.reject(world.now, phone.0, text.as_bytes());
    world.sent()
}

#[test]
fn rejected_request_gets_503_and_leaves_nothing() {
    let alice = Phone::udp("192.0.2.1:5060");
    let mut world = World::new();
    let mut moments = Vec::new();
    for number in 0..20 {
        let invite =
            alice.invite("bob", &number.to_string()).replace("Call-ID: call", &format!("Call-ID: {number}"));
        let sent = refused(&mut world, &alice, &invite);
        assert_eq!((sent.len(), sent[0].first_line()), (1, "SIP/2.0 503 Service Unavailable"));
        let later: u32 = sent[0].line("Retry-After").unwrap().parse().unwrap();
        assert!((2..10).contains(&later));
        moments.push(later);
        // A retransmission gets the same response.
        assert_eq!(refused(&mut world, &alice, &invite)[0].text, sent[0].text);
        // The ACK is absorbed.
        let ack = invite.replace("INVITE", "ACK");
        assert!(world.receive(&alice, &ack).is_empty());
    }
    moments.sort_unstable();
    moments.dedup();
    assert!(moments.len() > 3, "all would come back at once: {moments:?}");
    assert_eq!(world.service.transactions().counts(), (0, 0));
}

#[test]
fn retransmission_of_accepted_request_is_served() {
    let (alice, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let mut world = World::new();
    world.register(&bob, "bob");
    let invite = alice.invite("bob", "1");
    let sent = world.invite(&alice, &invite);
    let again = refused(&mut world, &alice, &invite);
    assert_eq!((again.len(), again[0].first_line()), (1, "SIP/2.0 100 Trying"));
    let ringing = world.receive(&bob, &response(&sent[0].text, 180, "b"));
    assert_eq!(ringing[0].first_line(), "SIP/2.0 180 Ringing");
}

#[test]
fn nonsense_and_responses_are_not_answered() {
    let alice = Phone::udp("192.0.2.1:5060");
    let mut world = World::new();
    for text in ["nonsense\r\n\r\n", "SIP/2.0 200 OK\r\n\r\n", "INVITE sip:a@b SIP/2.0\r\n\r\n"] {
        assert!(refused(&mut world, &alice, text).is_empty(), "{text}");
    }
}

#[test]
fn neighbours_that_ask_are_told_in_every_answer() {
    let (trunk, bob) = (Phone::udp("192.0.2.1:5060"), Phone::udp("192.0.2.2:5060"));
    let mut world = World::relaying();
    world.register(&bob, "bob");
    let asking = |text: String| text.replacen(";rport", NEIGHBOUR, 1);
    let calm = world.one(&trunk, &asking(trunk.request("OPTIONS", "sip:example.com", "o", "")));
    assert!(
        calm.line("Via").unwrap().contains(";oc=0;oc-algo=\"rate\";oc-validity=0;oc-seq="),
        "{}",
        calm.text
    );
    world.service.overload_mut().on_load(&Load { secs: 1.0, handled: 1, refused: 1 });
    assert!(world.service.overload().allowed_share() < 0.5);
    let wanted = ";oc=1;oc-algo=\"rate\";oc-validity=2000;oc-seq=1700000001.0;rport=5060";
    // Rejected, answered by the server, and answered by a phone.
    let invite = asking(trunk.invite("bob", "1"));
    let no = refused(&mut world, &trunk, &invite);
    assert!(no[0].line("Via").unwrap().contains(wanted), "{}", no[0].text);
    let unknown = world.one(&trunk, &asking(trunk.request("OPTIONS", "sip:nobody@example.com", "2", "")));
    assert!(unknown.line("Via").unwrap().contains(wanted), "{}", unknown.text);
    let sent = world.invite(&trunk, &invite);
    // The client's capabilities concern only its neighbour (RFC 7339 section 5.6).
    assert!(
        !sent[0].lines("Via")[1].contains("oc") && sent[0].lines("Via")[1].contains(";rport="),
        "{}",
        sent[0].text
    );
    let ok = world.receive(&bob, &response(&sent[0].text, 200, "b"));
    assert_eq!(ok[0].lines("Via").len(), 1);
    assert!(ok[0].line("Via").unwrap().contains(wanted), "{}", ok[0].text);
    // A phone that doesn't ask gets no overload parameters.
    let phone = Phone::udp("192.0.2.3:5060");
    let plain = world.one(&phone, &phone.request("OPTIONS", "sip:example.com", "3", ""));
    assert!(!plain.text.contains("oc="), "{}", plain.text);
}

#[test]
fn flows_that_registered_are_known() {
    let (bob, eve) = (Phone::udp("192.0.2.2:5060"), Phone::udp("192.0.2.3:5060"));
    let mut world = World::journaled();
    world.register(&bob, "bob");
    assert!(
        world.service.registrations().is_registered(&bob.0)
            && !world.service.registrations().is_registered(&eve.0)
    );
    let journal = world.service.output().journal.clone();
    let mut restarted = World::new();
    for (aor, state) in strandline_sip::bindings::Journal::read(journal.as_bytes()) {
        restarted.service.load("", aor, state);
    }
    assert!(
        restarted.service.registrations().is_registered(&bob.0)
            && !restarted.service.registrations().is_registered(&eve.0)
    );
}
