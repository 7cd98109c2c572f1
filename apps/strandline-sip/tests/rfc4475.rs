//! The torture messages of RFC 4475: one test for each, with the name of the message and the requirements of
//! its section. Where the RFC allows rejecting or guessing, the codec rejects.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use strandline_sip::codec::{
    ErrorKind, HeaderName, Host, Index, Message, Method, Multipart, Token, Transport, Uri, unescape, unquote,
};

use crate::torture::{accepted, answered, rejected};

macro_rules! rfc4475 {
    ($name:literal) => {
        include_bytes!(concat!("torture/rfc4475/", $name, ".dat"))
    };
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

mod valid {
    //! RFC 4475 section 3.1.1
    use super::*;

    #[test]
    fn wsinv() {
        accepted(rfc4475!("wsinv"), |message, essentials| {
            assert_eq!(message.method(), Some(Method::Invite));
            let Some(Uri::Sip(uri)) = essentials.uri else { panic!() };
            assert_eq!(text(uri.user.unwrap()), "vivekg");
            assert_eq!(uri.host, Host::Name(b"chair-dnrc.example.com"));
            assert_eq!(uri.params.get(b"unknownparam"), Some(None));
            assert_eq!(text(essentials.to.tag.unwrap()), "1918181833n");
            assert_eq!(text(essentials.to.uri_bytes()), "sip:vivekg@chair-dnrc.example.com");
            assert_eq!(text(essentials.from.tag.unwrap()), "98asjd8");
            let display = essentials.from.display.unwrap();
            assert!(unquote(&display[1..display.len() - 1]).eq(*br#"J Rosenberg \""#));
            assert_eq!(essentials.max_forwards, Some(68));
            assert_eq!(text(essentials.call_id), "wsinv.ndaksdj@192.0.2.1");
            assert_eq!((essentials.cseq.number, essentials.cseq.method), (9, Method::Invite));
            let vias: Vec<_> = message.vias().map(Result::unwrap).collect();
            let seen: Vec<_> = vias.iter().map(|via| (via.transport, via.host.to_string())).collect();
            assert_eq!(
                seen,
                [
                    (Transport::Udp, "192.0.2.2".to_owned()),
                    (Transport::Tcp, "spindle.example.com".to_owned()),
                    (Transport::Udp, "192.168.255.111".to_owned()),
                ]
            );
            assert_eq!(vias[0].branch, Some(&b"390skdjuw"[..]));
            assert_eq!(vias[0].branch_id(), None);
            assert_eq!(vias[1].branch_id(), Some(&b"9ikj8"[..]));
            assert_eq!(vias[2].branch_id(), Some(&b"30239"[..]));
            let subject = message.lines(HeaderName::Subject).next().unwrap();
            assert_eq!(subject.value(), b"");
            let unusual = message.lines_named(b"unknownheaderwithunusualvalue").next().unwrap();
            assert_eq!(unusual.value(), b";;,,;;,;");
            let new_fangled = message.lines_named(b"NewFangledHeader").next().unwrap();
            assert!(new_fangled.is_folded());
            let route = message.routes().next().unwrap().unwrap();
            let uri = route.sip_uri().unwrap();
            assert!(uri.is_loose_router());
            assert_eq!(uri.params.value(b"unknownwith"), Some(&b"value"[..]));
            assert_eq!(uri.params.get(b"unknown-no-value"), Some(None));
            let contact = message.contacts().unwrap().next().unwrap().unwrap();
            assert_eq!(contact.q().unwrap(), Some(330));
            assert_eq!(contact.params.value(b"newparam"), Some(&b"newvalue"[..]));
            assert_eq!(contact.params.get(b"secondparam"), Some(None));
            assert_eq!(message.body().len(), 150);
        });
    }

    #[test]
    fn intmeth() {
        accepted(rfc4475!("intmeth"), |message, essentials| {
            let Some(Method::Other(method)) = message.method() else { panic!() };
            assert_eq!(text(method), "!interesting-Method0123456789_*+`.%indeed'~");
            let Some(Uri::Sip(uri)) = essentials.uri else { panic!() };
            assert_eq!(text(uri.user.unwrap()), "1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*");
            assert_eq!(text(uri.password.unwrap()), "&it+has=1,weird!*pas$wo~d_too.(doesn't-it)");
            assert_eq!(essentials.via.branch_id(), Some(&b"-.!%66*_+`'~"[..]));
            let display = essentials.to.display.unwrap();
            assert!(unquote(&display[1..display.len() - 1]).eq(*b"BEL:\x07 NUL:\0 DEL:\x7f"));
            assert_eq!(text(essentials.from.display.unwrap()), "token1~` token2'+_ token3*%!.-");
            assert_eq!(text(essentials.from.params.value(b"fromParam''~+*_!.-%").unwrap()), "работающий");
            assert_eq!(text(essentials.from.tag.unwrap()), "_token~1'+`*%!-.");
            assert_eq!(text(essentials.call_id), r#"intmeth.word%ZK-!.*_+'@word`~)(><:\/"][?}{"#);
            assert_eq!(essentials.cseq.number, 139_122_385);
            assert_eq!(essentials.max_forwards, Some(255));
            let header = message.lines_named(b"extensionHeader-!.%*+_`'~").next().unwrap();
            assert_eq!(text(header.value()), "\u{feff}大停電");
        });
    }

    #[test]
    fn esc01() {
        accepted(rfc4475!("esc01"), |message, essentials| {
            let Some(Uri::Sip(uri)) = essentials.uri else { panic!() };
            assert!(unescape(uri.user.unwrap()).eq(*b"sips:user@example.com"));
            assert_eq!(uri.host, Host::Name(b"example.net"));
            let to = essentials.to.sip_uri().unwrap();
            assert!(unescape(to.user.unwrap()).eq(*b"user"));
            let from = essentials.from.sip_uri().unwrap();
            assert!(unescape(from.user.unwrap()).eq(*b"I have spaces"));
            let contact = message.contacts().unwrap().next().unwrap().unwrap().sip_uri().unwrap();
            assert!(unescape(contact.user.unwrap()).eq(*b"caller"));
            assert!(contact.is_loose_router());
            let value = contact.params.value(b"name").unwrap();
            assert!(unescape(value).eq(*b"value%41"));
            assert_eq!(message.body().len(), 150);
        });
    }

    #[test]
    fn escnull() {
        accepted(rfc4475!("escnull"), |message, essentials| {
            let to = essentials.to.sip_uri().unwrap();
            assert!(unescape(to.user.unwrap()).eq(*b"null-\0-null"));
            let contacts: Vec<_> =
                message.contacts().unwrap().map(|contact| contact.unwrap().uri().unwrap()).collect();
            assert_eq!(contacts.len(), 2);
            assert!(!contacts[0].matches(&contacts[1]));
        });
    }

    #[test]
    fn esc02() {
        accepted(rfc4475!("esc02"), |message, essentials| {
            assert_eq!(message.method(), Some(Method::Other(b"RE%47IST%45R")));
            assert_eq!(essentials.to.display, Some(&b"\"%Z%45\""[..]));
            assert_eq!(message.contacts().unwrap().count(), 2);
            assert!(message.lines_named(b"C%6Fntact").next().is_some());
        });
    }

    #[test]
    fn lwsdisp() {
        accepted(rfc4475!("lwsdisp"), |_, essentials| {
            assert_eq!(essentials.from.display, Some(&b"caller"[..]));
            assert_eq!(essentials.from.uri_bytes(), b"sip:caller@example.com");
            assert_eq!(essentials.from.tag, Some(&b"323"[..]));
        });
    }

    #[test]
    fn longreq() {
        accepted(rfc4475!("longreq"), |message, essentials| {
            assert_eq!(message.vias().map(Result::unwrap).count(), 34);
            assert!(message.vias().map(Result::unwrap).all(|via| via.transport == Transport::Tcp));
            let last = message.vias().last().unwrap().unwrap();
            assert_eq!(last.branch.unwrap().len(), 4 + 50 * 4 + 11);
            assert_eq!(last.received, Some("192.0.2.5".parse().unwrap()));
            assert_eq!(essentials.from.tag.unwrap().len(), 2 + 50 * 3 + 3);
            assert_eq!(essentials.to.sip_uri().unwrap().port, Some(6000));
            assert_eq!(message.body().len(), 150);
        });
    }

    #[test]
    fn dblreq() {
        accepted(rfc4475!("dblreq"), |message, essentials| {
            assert_eq!(message.method(), Some(Method::Register));
            assert_eq!(essentials.cseq.number, 8);
            assert_eq!(message.body(), b"");
            assert!(message.as_bytes().ends_with(b"Content-Length: 0\r\n\r\n"));
        });
    }

    #[test]
    fn semiuri() {
        accepted(rfc4475!("semiuri"), |message, essentials| {
            let Some(Uri::Sip(uri)) = essentials.uri else { panic!() };
            assert!(unescape(uri.user.unwrap()).eq(*b"user;par=u@example.net"));
            assert!(uri.params.is_empty());
            let accept: Vec<_> = message.accept().map(Result::unwrap).collect();
            assert_eq!(accept.len(), 6);
            assert!(accept[5].is(b"message", b"sipfrag"));
        });
    }

    #[test]
    fn transports() {
        accepted(rfc4475!("transports"), |message, _| {
            let transports: Vec<_> = message.vias().map(|via| via.unwrap().transport).collect();
            let unknown = Transport::Other(b"UNKNOWN");
            assert_eq!(
                transports,
                [Transport::Udp, Transport::Sctp, Transport::Tls, unknown, Transport::Tcp]
            );
        });
    }

    #[test]
    fn mpart01() {
        accepted(rfc4475!("mpart01"), |message, essentials| {
            assert_eq!(message.method(), Some(Method::Message));
            assert_eq!(essentials.via.rport, Some(None));
            let kind = message.content_type().unwrap().unwrap();
            assert!(kind.is(b"multipart", b"mixed"));
            let parts: Vec<_> = Multipart::new(&kind, message.body()).unwrap().map(Result::unwrap).collect();
            assert_eq!(parts.len(), 2);
            assert_eq!(parts[0].body, b"Hello");
            assert_eq!(parts[0].header(HeaderName::ContentType), Some(&b"text/plain"[..]));
            assert_eq!(parts[1].body.len(), 0x152 + 4);
            assert_eq!(message.date().unwrap().unwrap().unix_seconds(), 1_129_351_496);
        });
    }

    #[test]
    fn unreason() {
        accepted(rfc4475!("unreason"), |message, essentials| {
            let line = message.status_line().unwrap();
            assert_eq!(line.code.code(), 200);
            assert_eq!(text(line.reason), "= 2**3 * 5**2 но сто девяносто девять - простое");
            assert_eq!(essentials.cseq.method, Method::Invite);
        });
    }

    #[test]
    fn noreason() {
        accepted(rfc4475!("noreason"), |message, _| {
            let line = message.status_line().unwrap();
            assert_eq!((line.code.code(), line.reason), (100, &b""[..]));
        });
    }
}

mod invalid {
    //! RFC 4475 section 3.1.2
    use super::*;

    #[test]
    fn badinv01() {
        answered(rfc4475!("badinv01"), 400, ErrorKind::Parameter, Some(HeaderName::Via));
        let mut index = Index::new();
        let message = Message::parse(rfc4475!("badinv01"), &mut index).unwrap();
        assert!(message.contacts().unwrap().next().unwrap().is_err());
    }

    #[test]
    fn clerr() {
        answered(rfc4475!("clerr"), 400, ErrorKind::BodyTruncated, Some(HeaderName::ContentLength));
    }

    #[test]
    fn ncl() {
        answered(rfc4475!("ncl"), 400, ErrorKind::Number, Some(HeaderName::ContentLength));
    }

    #[test]
    fn scalar02() {
        answered(rfc4475!("scalar02"), 400, ErrorKind::TooLarge, Some(HeaderName::CSeq));
        let mut index = Index::new();
        let message = Message::parse(rfc4475!("scalar02"), &mut index).unwrap();
        assert_eq!(message.max_forwards().unwrap_err().kind, ErrorKind::TooLarge);
        assert_eq!(message.expires().unwrap_err().kind, ErrorKind::TooLarge);
        let contact = message.contacts().unwrap().next().unwrap().unwrap();
        assert_eq!(contact.expires().unwrap_err().kind, ErrorKind::TooLarge);
    }

    #[test]
    fn scalarlg() {
        let (error, answerable) = rejected(rfc4475!("scalarlg"));
        assert_eq!((error.kind, error.header), (ErrorKind::TooLarge, Some(HeaderName::CSeq)));
        assert!(!answerable);
        let mut index = Index::new();
        let message = Message::parse(rfc4475!("scalarlg"), &mut index).unwrap();
        assert_eq!(message.retry_after().unwrap_err().kind, ErrorKind::TooLarge);
        assert!(message.warnings().next().unwrap().is_err());
    }

    #[test]
    fn quotbal() {
        answered(rfc4475!("quotbal"), 400, ErrorKind::Quoted, Some(HeaderName::To));
    }

    #[test]
    fn ltgtruri() {
        answered(rfc4475!("ltgtruri"), 400, ErrorKind::Uri, None);
    }

    #[test]
    fn lwsruri() {
        answered(rfc4475!("lwsruri"), 400, ErrorKind::StartLine, None);
    }

    #[test]
    fn lwsstart() {
        answered(rfc4475!("lwsstart"), 400, ErrorKind::Uri, None);
    }

    #[test]
    fn trws() {
        answered(rfc4475!("trws"), 400, ErrorKind::StartLine, None);
    }

    #[test]
    fn escruri() {
        answered(rfc4475!("escruri"), 400, ErrorKind::UriHeaders, None);
    }

    /// The malformed date matters only to code that reads it.
    #[test]
    fn baddate() {
        accepted(rfc4475!("baddate"), |message, _| {
            let error = message.date().unwrap_err();
            assert_eq!((error.kind, error.header), (ErrorKind::Date, Some(HeaderName::Date)));
        });
    }

    /// A registrar, which reads the contacts, finds the header in a URI without brackets.
    #[test]
    fn regbadct() {
        accepted(rfc4475!("regbadct"), |message, _| {
            let error = message.contacts().unwrap().next().unwrap().unwrap_err();
            assert_eq!((error.kind, error.status().code()), (ErrorKind::Brackets, 400));
        });
    }

    #[test]
    fn badaspec() {
        answered(rfc4475!("badaspec"), 400, ErrorKind::Brackets, Some(HeaderName::To));
    }

    #[test]
    fn baddn() {
        answered(rfc4475!("baddn"), 400, ErrorKind::HeadersUnterminated, None);
        let whole = [&rfc4475!("baddn")[..], b"\r\n"].concat();
        answered(&whole, 400, ErrorKind::Brackets, Some(HeaderName::From));
    }

    #[test]
    fn badvers() {
        answered(rfc4475!("badvers"), 505, ErrorKind::Version, None);
    }

    #[test]
    fn mismatch01() {
        answered(rfc4475!("mismatch01"), 400, ErrorKind::MethodMismatch, Some(HeaderName::CSeq));
    }

    #[test]
    fn mismatch02() {
        answered(rfc4475!("mismatch02"), 501, ErrorKind::UnknownMethodMismatch, Some(HeaderName::CSeq));
    }

    #[test]
    fn bigcode() {
        let (error, answerable) = rejected(rfc4475!("bigcode"));
        assert_eq!(error.kind, ErrorKind::StatusCode);
        assert!(!answerable);
    }
}

mod above {
    //! RFC 4475 sections 3.2 to 3.4: messages that the upper layers must handle.
    use super::*;

    #[test]
    fn badbranch() {
        answered(rfc4475!("badbranch"), 400, ErrorKind::Branch, Some(HeaderName::Via));
    }

    #[test]
    fn insuf() {
        answered(rfc4475!("insuf"), 400, ErrorKind::Missing, Some(HeaderName::From));
    }

    /// The server decides whether it knows the scheme, and responds with 416.
    #[test]
    fn unkscm() {
        accepted(rfc4475!("unkscm"), |_, essentials| {
            let Some(Uri::Other(uri)) = essentials.uri else { panic!() };
            assert_eq!(text(uri.scheme), "nobodyKnowsThisScheme");
            let refused = essentials.routable_uri().unwrap_err();
            assert_eq!((refused.kind, refused.status().code()), (ErrorKind::Scheme, 416));
        });
    }

    #[test]
    fn novelsc() {
        accepted(rfc4475!("novelsc"), |_, essentials| {
            let Some(Uri::Other(uri)) = essentials.uri else { panic!() };
            assert_eq!((text(uri.scheme), text(uri.rest)), ("soap.beep", "//192.0.2.103:3002"));
            assert_eq!(essentials.routable_uri().unwrap_err().status().code(), 416);
        });
    }

    #[test]
    fn unksm2() {
        accepted(rfc4475!("unksm2"), |message, essentials| {
            let refused = essentials.to.sip_uri().unwrap_err();
            assert_eq!((refused.kind, refused.status().code()), (ErrorKind::NotSip, 400));
            assert_eq!(essentials.to.uri().unwrap().scheme(), b"isbn");
            assert_eq!(essentials.from.uri().unwrap().scheme(), b"http");
            let contact = message.contacts().unwrap().next().unwrap().unwrap();
            assert_eq!(contact.uri().unwrap().scheme(), b"name");
        });
    }

    #[test]
    fn bext01() {
        accepted(rfc4475!("bext01"), |message, _| {
            let of =
                |name| -> Vec<_> { message.unsupported_of(name, &["path"]).map(Result::unwrap).collect() };
            assert_eq!(
                of(HeaderName::Require),
                [Token(b"nothingSupportsThis"), Token(b"nothingSupportsThisEither")]
            );
            assert_eq!(
                of(HeaderName::ProxyRequire),
                [Token(b"noProxiesSupportThis"), Token(b"norDoAnyProxiesSupportThis")]
            );
        });
    }

    #[test]
    fn invut() {
        accepted(rfc4475!("invut"), |message, _| {
            assert!(message.content_type().unwrap().unwrap().is(b"application", b"unknownformat"));
            assert_eq!(message.body().len(), 40);
        });
    }

    #[test]
    fn regaut01() {
        accepted(rfc4475!("regaut01"), |message, _| {
            let auth = message.authorizations().next().unwrap().unwrap();
            assert_eq!(text(auth.scheme), "NoOneKnowsThisScheme");
            assert_eq!(auth.params.value(b"opaque-data"), Some(&b"here"[..]));
            assert_eq!(auth.digest(), None);
        });
    }

    #[test]
    fn multi01() {
        answered(rfc4475!("multi01"), 400, ErrorKind::Repeated, Some(HeaderName::From));
    }

    #[test]
    fn mcl01() {
        answered(rfc4475!("mcl01"), 400, ErrorKind::Repeated, Some(HeaderName::ContentLength));
    }

    #[test]
    fn bcast() {
        accepted(rfc4475!("bcast"), |message, _| {
            let allowed: Vec<_> = message.vias().map(|via| via.unwrap().host.may_be_sent_to()).collect();
            assert_eq!(allowed, [true, false]);
        });
    }

    #[test]
    fn zeromf() {
        accepted(rfc4475!("zeromf"), |_, essentials| assert_eq!(essentials.max_forwards, Some(0)));
    }

    #[test]
    fn cparam01() {
        accepted(rfc4475!("cparam01"), |message, _| {
            let contact = message.contacts().unwrap().next().unwrap().unwrap();
            assert!(contact.params.has(b"unknownparam"));
            assert!(!contact.sip_uri().unwrap().params.has(b"unknownparam"));
            assert_eq!(text(contact.uri_bytes()), "sip:+19725552222@gw1.example.net");
        });
    }

    #[test]
    fn cparam02() {
        accepted(rfc4475!("cparam02"), |message, _| {
            let contact = message.contacts().unwrap().next().unwrap().unwrap();
            assert!(contact.params.is_empty());
            assert!(contact.sip_uri().unwrap().params.has(b"unknownparam"));
        });
    }

    #[test]
    fn regescrt() {
        accepted(rfc4475!("regescrt"), |message, _| {
            let contact = message.contacts().unwrap().next().unwrap().unwrap().sip_uri().unwrap();
            let (name, value) = contact.headers.iter().next().unwrap();
            assert_eq!(name, b"Route");
            assert!(unescape(value).eq(*b"<sip:sip.example.com>"));
        });
    }

    #[test]
    fn sdp01() {
        accepted(rfc4475!("sdp01"), |message, _| {
            let accepts =
                message.accept().map(Result::unwrap).any(|range| range.covers(b"application", b"sdp"));
            assert!(!accepts);
        });
    }

    #[test]
    fn inv2543() {
        accepted(rfc4475!("inv2543"), |message, essentials| {
            assert_eq!(essentials.via.branch, None);
            assert_eq!(essentials.from.tag, None);
            assert_eq!(essentials.max_forwards, None);
            assert_eq!(message.content_length().unwrap(), None);
            assert_eq!(message.body().len(), 105);
            let route = message.record_routes().next().unwrap().unwrap().sip_uri().unwrap();
            assert_eq!(route.maddr(), Some(&b"ss1.example.com"[..]));
            assert!(!route.is_loose_router());
            assert!(essentials.to.params.has(b"user"));
        });
    }
}

#[test]
fn every_message_has_its_test() {
    crate::torture::every_message_is_named("rfc4475", include_str!("rfc4475.rs"), 49);
}
