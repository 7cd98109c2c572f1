use super::*;
use crate::job::tests::job;

fn exchange(transport: Transport, content: Content, message_bytes: usize) -> Result<Exchange> {
    Exchange::new(&Job { transport, content, message_bytes, ..job() })
}

#[test]
fn invite_has_the_requested_length() {
    for transport in [Transport::Tcp, Transport::Udp, Transport::SctpMany] {
        for len in [500, 1550, 12_000] {
            let message = exchange(transport, Content::Invite, len).unwrap().message;
            assert_eq!(message.len(), len);
            assert!(whole_message(&message).is_some_and(|found| found.len == len && found.status.is_none()));
        }
    }
    let error = exchange(Transport::Tcp, Content::Invite, 100).unwrap_err().to_string();
    assert!(error.contains("larger --size"), "{error}");
}

#[test]
fn echo_is_counted_and_200_is_parsed() {
    let echo = exchange(Transport::Tcp, Content::Letters, 3).unwrap();
    assert!(!echo.is_whole(2, b"").unwrap() && echo.is_whole(3, b"").unwrap() && !echo.is_kept());
    let sip = exchange(Transport::Tcp, Content::Invite, 1550).unwrap();
    assert!(sip.is_kept());
    let answer = b"SIP/2.0 200 OK\r\nVia: x\r\nContent-Length: 1\r\n\r\nb";
    assert!(!sip.is_whole(answer.len() - 1, &answer[..answer.len() - 1]).unwrap());
    assert!(sip.is_whole(answer.len(), answer).unwrap());
    for (text, says) in [
        ("SIP/2.0 503 Busy\r\n\r\n", "answered with 503"),
        ("INVITE sip:a SIP/2.0\r\n\r\n", "invalid response"),
    ] {
        let error = sip.is_whole(text.len(), text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn line_is_split_and_any_answer_is_whole() {
    for len in [1, 2, 16_384, 16_385, 1_000_000] {
        let line = exchange(Transport::Sctp, Content::Line, len).unwrap();
        let pieces: Vec<_> = line.pieces().collect();
        assert_eq!(pieces.len(), len.div_ceil(16_384));
        assert_eq!(pieces.concat(), line.message);
        assert_eq!(line.message.iter().position(|byte| *byte == b'\n'), Some(len - 1));
        assert!(line.is_whole(1, b"").unwrap() && !line.is_whole(0, b"").unwrap() && !line.is_kept());
    }
    let letters = exchange(Transport::Sctp, Content::Letters, 100_000).unwrap();
    assert_eq!(letters.pieces().count(), 1);
}

#[test]
fn what_cannot_be_sent_is_refused() {
    exchange(Transport::Tcp, Content::Letters, 0).unwrap_err();
    exchange(Transport::Udp, Content::Letters, 65_508).unwrap_err();
}
