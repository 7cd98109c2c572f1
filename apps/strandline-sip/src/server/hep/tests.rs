use super::*;

fn hep(sample: f64) -> (Hep, Receiver<Vec<u8>>) {
    let settings = HepSettings {
        collector: ([127, 0, 0, 1], 9060).into(),
        tcp: false,
        capture_id: 1,
        password: Vec::new(),
        sample,
        blank_credentials: true,
    };
    let (queue, waiting) = channel(WAITING_MAX);
    let shared = Rc::default();
    (Hep { settings, local: Vec::new(), queue, shared, hasher: RandomState::new() }, waiting)
}

fn flow() -> Flow {
    Flow::to(Protocol::Udp, ([192, 0, 2, 1], 5060).into())
}

#[test]
fn credentials_are_made_unreadable_and_nothing_else_changes() {
    let text = "REGISTER sip:a SIP/2.0\r\nAuthorization: Digest username=\"bob\",\r\n response=\"00ff\"\r\n\
                proxy-authorization : Digest x=y\r\nFrom: Authorization\r\n\r\nAuthorization: body";
    let blanked = String::from_utf8(blank_credentials(text.as_bytes()).unwrap()).unwrap();
    assert_eq!(
        blanked,
        "REGISTER sip:a SIP/2.0\r\nAuthorization: ****** ***************\r\n ***************\r\n\
         proxy-authorization : ****** ***\r\nFrom: Authorization\r\n\r\nAuthorization: body"
    );
    assert_eq!(blank_credentials(b"BYE sip:a SIP/2.0\r\nFrom: a\r\n\r\n"), None);
}

#[test]
fn calls_are_copied_whole_or_not() {
    let (hep, mut waiting) = hep(0.25);
    let mut copied = 0;
    for call in 0..2000 {
        let invite = format!("INVITE sip:a SIP/2.0\r\nCall-ID: {call}\r\n\r\n");
        let ok = format!("SIP/2.0 200 OK\r\ni:  {call} \r\n\r\n");
        let is = hep.is_sampled(invite.as_bytes());
        assert_eq!(is, hep.is_sampled(ok.as_bytes()));
        hep.copy(&flow(), invite.as_bytes(), true, Duration::ZERO);
        copied += usize::from(is);
    }
    assert!((350..650).contains(&copied), "{copied}");
    assert_eq!(std::iter::from_fn(|| waiting.try_recv().ok()).count(), copied);
}

#[test]
fn excess_copies_are_dropped_and_counted() {
    let (hep, waiting) = hep(1.0);
    for _ in 0..WAITING_MAX + 10 {
        hep.copy(&flow(), b"x", false, Duration::ZERO);
    }
    assert_eq!((waiting.len(), hep.counters().dropped), (WAITING_MAX, 10));
    let (hep, waiting) = self::hep(1.0);
    let large = vec![b'x'; 60_000];
    for _ in 0..1000 {
        hep.copy(&flow(), &large, false, Duration::ZERO);
    }
    assert!(waiting.len() * large.len() <= BYTES_MAX && hep.counters().dropped > 100);
    hep.copy(&flow(), &vec![b'x'; 70_000], false, Duration::ZERO);
    assert_eq!(hep.counters().dropped as usize + waiting.len(), 1001);
}
