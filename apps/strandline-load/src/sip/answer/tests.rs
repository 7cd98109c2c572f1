use super::*;

const RINGING: &[u8] = b"SIP/2.0 180 Ringing\r\nVIA : no\r\nVia: SIP/2.0/UDP 127.0.0.1;rport=1;branch=z9hG4bKi17.3.2\r\n\
    Record-Route: <sip:a;lr>\r\nrecord-route: <sip:b;lr>\r\nCall-ID: c17.3-9@h\r\nContent-Length: 2\r\n\r\nhi";

#[test]
fn what_is_needed_is_found() {
    let came = Came { bytes: RINGING };
    assert_eq!(came.status(), Some(180));
    assert_eq!(came.branch(), Some(Mark { kind: b'i', slot: 17, generation: 3, attempt: 2 }));
    assert_eq!(came.call(), Some(Mark { kind: b'c', slot: 17, generation: 3, attempt: 0 }));
    let routes: Vec<&[u8]> = came.values("Record-Route").map(Came::uri).collect();
    assert_eq!(routes, [b"sip:a;lr", b"sip:b;lr"]);
    let request = Came { bytes: b"BYE sip:a SIP/2.0\r\n\r\n" };
    assert_eq!((request.status(), request.method()), (None, &b"BYE"[..]));
}

#[test]
fn a_message_of_others_is_none_of_ours() {
    for text in ["", "SIP/2.0", "SIP/2.0 abc", "SIP/2.0 200 OK\r\nVia: x;branch=z9hG4bK\r\n", "\r\n\r\n"] {
        let came = Came { bytes: text.as_bytes() };
        assert_eq!((came.branch(), came.call()), (None, None), "{text:?}");
    }
    assert_eq!(Came { bytes: b"SIP/2.0 abc" }.status(), None);
    let huge = b"SIP/2.0 200 OK\r\nVia: x;branch=z9hG4bKi99999999999.1\r\n\r\n";
    assert_eq!(Came { bytes: huge }.branch(), None);
}

#[test]
fn a_stream_is_cut_where_a_message_ends() {
    for end in 0..RINGING.len() {
        assert_eq!(first_message(&RINGING[..end]), None);
    }
    let two = [RINGING, RINGING].concat();
    assert_eq!(first_message(&two), Some(RINGING.len()));
}

#[test]
fn the_length_of_a_body_may_stand_anywhere() {
    for text in [
        "SIP/2.0 200 OK\r\nContent-Length: 2\r\nX: 1\r\n\r\nhi",
        "SIP/2.0 200 OK\r\nX: 1\r\ncontent-length:  2\r\n\r\nhi",
        "SIP/2.0 200 OK\r\nX: 1\r\n\r\n",
        "SIP/2.0 200 OK\r\n\r\n",
    ] {
        let stream = [text, "BYE sip:a SIP/2.0\r\n\r\n"].concat();
        assert_eq!(first_message(stream.as_bytes()), Some(text.len()), "{text}");
    }
}
