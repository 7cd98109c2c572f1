use super::*;

const ASKS: &str = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;oc;oc-algo=\"loss,rate\"";
const LOSS: &str = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;oc";

fn address(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn response(via: &str) -> BytesMut {
    let text = format!(
        "before SIP/2.0 200 OK\r\nVia: {via};received=1.2.3.4, SIP/2.0/UDP b;oc\r\nFrom: a\r\nTo: b\r\n\
         Call-ID: c\r\nCSeq: 1 OPTIONS\r\nContent-Length: 0\r\n\r\n"
    );
    BytesMut::from(text.as_str())
}

fn asked(feedback: &mut Feedback, last: u8, via: &str, count: usize) {
    let text = format!("SIP/2.0 200 OK\r\nVia: {via}\r\n\r\n");
    let mut index = Index::new();
    let message = Message::parse(text.as_bytes(), &mut index).unwrap();
    let via = message.via().unwrap();
    assert!(via.oc);
    (0..count).for_each(|_| feedback.on_request(Time::ZERO, address(last), &via));
}

fn told(feedback: &Feedback, last: u8, via: &str) -> String {
    let mut out = response(via);
    feedback.note(address(last), false, &mut out, 7);
    let text = String::from_utf8(out.to_vec()).unwrap();
    let line = text.lines().nth(1).unwrap();
    assert!(text.starts_with("before SIP/2.0 200 OK\r\nVia: ") && text.ends_with("\r\n\r\n"), "{text}");
    assert!(line.ends_with(", SIP/2.0/UDP b;oc"), "only the neighbour is told: {line}");
    line.to_owned()
}

#[test]
fn who_asks_hears_that_all_is_well() {
    let mut feedback = Feedback::new(1000);
    asked(&mut feedback, 1, ASKS, 1);
    let line = told(&feedback, 1, ASKS);
    let wanted = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;oc=0;oc-algo=\"rate\";oc-validity=0;oc-seq=1000.0;received=1.2.3.4";
    assert!(line.starts_with(wanted), "{line}");
    // Another address, or a Via that doesn't ask.
    assert_eq!(told(&feedback, 2, ASKS), format!("Via: {ASKS};received=1.2.3.4, SIP/2.0/UDP b;oc"));
    let plain = "SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1";
    assert_eq!(told(&feedback, 1, plain), format!("Via: {plain};received=1.2.3.4, SIP/2.0/UDP b;oc"));
}

#[test]
fn overloaded_server_reports_rate_or_loss() {
    let mut feedback = Feedback::new(1000);
    asked(&mut feedback, 1, ASKS, 3000);
    asked(&mut feedback, 2, LOSS, 1000);
    // Half of what came was done.
    feedback.on_load(&Load { secs: 2.0, handled: 2000, refused: 2000 });
    let (rate, loss) = (told(&feedback, 1, ASKS), told(&feedback, 2, LOSS));
    assert!(rate.contains(";oc=675;oc-algo=\"rate\";oc-validity=2000;oc-seq=1001.0"), "{rate}");
    assert!(loss.contains(";oc=55;oc-algo=\"loss\";oc-validity=2000;oc-seq=1001.0"), "{loss}");
    // They keep to it, and may soon send more and then as much as they like.
    asked(&mut feedback, 1, ASKS, 1350);
    asked(&mut feedback, 2, LOSS, 450);
    feedback.on_load(&Load { secs: 2.0, handled: 1800, refused: 0 });
    assert!(told(&feedback, 1, ASKS).contains(";oc=743;"), "{}", told(&feedback, 1, ASKS));
    assert!(told(&feedback, 2, LOSS).contains(";oc=50;"), "{}", told(&feedback, 2, LOSS));
    for _ in 0..20 {
        feedback.on_load(&Load { secs: 2.0, handled: 100, refused: 0 });
    }
    assert!(told(&feedback, 2, LOSS).contains(";oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=1022.0"));
}

#[test]
fn remembered_neighbours_are_bounded() {
    let mut feedback = Feedback::new(0);
    for last in 0..100 {
        asked(&mut feedback, last, LOSS, 1);
    }
    assert_eq!(feedback.neighbours.len(), NEIGHBOURS);
    let text = format!("SIP/2.0 200 OK\r\nVia: {LOSS}\r\n\r\n");
    let mut index = Index::new();
    let message = Message::parse(text.as_bytes(), &mut index).unwrap();
    feedback.on_request(Time::from_millis(GONE_MS + 1), address(200), &message.via().unwrap());
    assert!(told(&feedback, 200, LOSS).contains(";oc=0;"));
}

#[test]
fn an_algorithm_stays_for_an_hour() {
    let mut feedback = Feedback::new(1000);
    let algorithm = |feedback: &mut Feedback, secs: u64, via: &str| {
        let text = format!("SIP/2.0 200 OK\r\nVia: {via}\r\n\r\n");
        let mut index = Index::new();
        let message = Message::parse(text.as_bytes(), &mut index).unwrap();
        feedback.on_request(Time::from_millis(secs * 1000), address(1), &message.via().unwrap());
        let line = told(feedback, 1, via);
        line.split("oc-algo=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    assert_eq!(algorithm(&mut feedback, 0, LOSS), "loss");
    assert_eq!(algorithm(&mut feedback, 10, ASKS), "loss", "it was chosen ten seconds ago");
    assert_eq!(algorithm(&mut feedback, 3599, ASKS), "loss");
    assert_eq!(algorithm(&mut feedback, 3601, ASKS), "rate");
    // It offers that no more: it can't keep to it.
    assert_eq!(algorithm(&mut feedback, 3602, LOSS), "loss");
    assert_eq!(algorithm(&mut feedback, 3603, ASKS), "loss");
}

#[test]
fn stripped_oc_parameter_is_still_answered() {
    let mut feedback = Feedback::new(1000);
    asked(&mut feedback, 1, LOSS, 1);
    let mut out = response("SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;rport=5060");
    feedback.note(address(1), true, &mut out, 7);
    let text = String::from_utf8(out.to_vec()).unwrap();
    let wanted = "Via: SIP/2.0/UDP 192.0.2.1;branch=z9hG4bK1;oc=0;oc-algo=\"loss\";oc-validity=0;oc-seq=1000.0;rport=5060";
    assert!(text.contains(wanted), "{text}");
}

#[test]
fn single_askers_do_not_displace_neighbours() {
    let mut feedback = Feedback::new(1000);
    asked(&mut feedback, 1, ASKS, FEW as usize);
    // As many more as there are places, and then some.
    for last in 2..200 {
        asked(&mut feedback, last, ASKS, 1);
    }
    assert_eq!(feedback.neighbours.len(), NEIGHBOURS);
    asked(&mut feedback, 250, ASKS, FEW as usize);
    for last in 100..200 {
        asked(&mut feedback, last, ASKS, 1);
    }
    for last in [1, 250] {
        assert!(told(&feedback, last, ASKS).contains(";oc=0;"), "{last}");
    }
    // Where all have sent more, a new one has to wait until one of them is gone.
    for last in 2..200 {
        asked(&mut feedback, last, ASKS, FEW as usize);
    }
    asked(&mut feedback, 251, ASKS, 1);
    assert!(!told(&feedback, 251, ASKS).contains(";oc=0;"));
}

#[test]
fn who_is_silent_is_forgotten() {
    let mut feedback = Feedback::new(1000);
    asked(&mut feedback, 1, ASKS, 1);
    asked(&mut feedback, 2, ASKS, 1);
    for _ in 0..SILENT_SECS as usize + 1 {
        asked(&mut feedback, 1, ASKS, 1);
        feedback.on_load(&Load { secs: 1.0, handled: 1, refused: 0 });
    }
    assert!(told(&feedback, 1, ASKS).contains(";oc=0;") && !told(&feedback, 2, ASKS).contains(";oc=0;"));
    for _ in 0..SILENT_SECS as usize + 1 {
        feedback.on_load(&Load { secs: 1.0, handled: 0, refused: 0 });
    }
    assert!(feedback.is_empty());
}
