//! Forward-TSN-Supported in INIT and INIT ACK (section 3.3).

use strandline_wire::Chunk;
use strandline_wire::cause::code;
use strandline_wire::chunk::CookieEcho;
use strandline_wire::parameter::kind as parameter;

use super::super::conformance_3::causes;
use super::*;

/// Returns the values of these parameters in an INIT or INIT ACK.
fn values(sent: &Sent, kind: u16) -> Vec<Vec<u8>> {
    let Some(Chunk::Init(init) | Chunk::InitAck(init)) = chunks(sent).into_iter().next() else {
        panic!("no INIT")
    };
    let found = init.parameters.iter().flatten().filter(|raw| raw.kind == kind);
    found.map(|raw| raw.value.to_vec()).collect()
}

/// Returns whether INIT or INIT ACK declares the extension: by its parameter, and in Supported Extensions.
fn declares(sent: &Sent) -> (bool, bool) {
    let listed = values(sent, parameter::SUPPORTED_EXTENSIONS);
    let listed = listed.iter().any(|kinds| kinds.contains(&kind::FORWARD_TSN));
    (!values(sent, parameter::FORWARD_TSN_SUPPORTED).is_empty(), listed)
}

/// Returns a configuration that offers the extension or not.
fn offering(partial_reliability: bool) -> Pair {
    Pair::configured(move |config| config.extensions.partial_reliability = partial_reliability)
}

/// Section 3.3.1: the INIT declares the extension in both ways, if it is wanted.
#[test]
fn the_init_declares_support() {
    for wanted in [true, false] {
        let mut pair = offering(wanted);
        pair.connect();
        pair.run();
        let declared: Vec<_> = pair.log.iter().take(2).map(declares).collect();
        assert_eq!(declared, [(wanted, wanted); 2], "INIT and INIT ACK");
    }
}

/// Section 3.3.2: either declaration of the peer is enough.
#[test]
fn either_declaration_of_the_peer_counts() {
    let cases: [(&[u8], bool); 4] = [
        (&SUPPORTED, true),
        (&[0x80, 8, 0, 6, 130, 192, 0, 0], true),
        (&[0xc0, 0, 0, 4, 0x80, 8, 0, 5, 192, 0, 0, 0], true),
        (&[0x80, 8, 0, 5, 130, 0, 0, 0], false),
    ];
    for (parameters, agreed) in cases {
        let init = Init { parameters: Parameters::new(parameters), ..init(Tsn(1000)) };
        let mut raw = Raw::open(Pair::new(), init);
        let reported = raw.forward(raw.tsn, &[]).iter().any(has(kind::ERROR));
        assert_eq!(reported, !agreed, "{parameters:?}");
        let answer = raw.pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap();
        assert_eq!(declares(answer), (agreed, agreed), "{parameters:?}");
    }
}

/// Section 3.3.1: without the negotiation a FORWARD TSN is answered with an ERROR, and has no effect. The rest of its
/// packet counts.
#[test]
fn forward_tsn_without_negotiation_is_reported() {
    for (wanted, parameters) in [(true, &[][..]), (false, &SUPPORTED[..])] {
        let init = Init { parameters: Parameters::new(parameters), ..init(Tsn(1000)) };
        let mut raw = Raw::open(offering(wanted), init);
        let bytes = [192, 0, 0, 12, 0, 0, 3, 0xe9, 0, 0, 0, 0];
        let (rest, data) = (AnyChunk { kind: 192, flags: 0, value: &bytes[4..] }, whole(raw.tsn, 0, b"data"));
        let sent = raw.say_all(&[&rest, &data]);
        let error = sent.iter().find(|sent| has(kind::ERROR)(sent)).expect("an ERROR");
        assert_eq!(causes(error), [(code::UNRECOGNISED_CHUNK, bytes.to_vec())]);
        assert_eq!(raw.acknowledged(&sent), (raw.tsn, vec![]));
        assert_eq!((raw.texts(), raw.state()), (vec!["data".to_owned()], "ESTABLISHED"));
    }
}

/// Section 3.3.2: an endpoint that does not support the extension reports the parameter as unrecognised.
#[test]
fn an_unwanted_parameter_is_reported() {
    for wanted in [true, false] {
        let reported = if wanted { vec![] } else { vec![SUPPORTED.to_vec()] };
        let raw =
            Raw::open(offering(wanted), Init { parameters: Parameters::new(&SUPPORTED), ..init(Tsn(1)) });
        let answer = raw.pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap();
        assert_eq!(values(answer, parameter::UNRECOGNISED_PARAMETER), reported);

        let mut pair = offering(wanted);
        pair.connect();
        let parameters = [0, 7, 0, 8, 5, 6, 7, 8, 0xc0, 0, 0, 4];
        let echo = answer_init(&mut pair, Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) });
        let Some(Chunk::CookieEcho(CookieEcho { cookie })) = chunks(&echo[0]).into_iter().next() else {
            panic!("no COOKIE ECHO")
        };
        assert_eq!(cookie, [5, 6, 7, 8]);
        assert_eq!(has(kind::ERROR)(&echo[0]), !wanted);
        if !wanted {
            assert_eq!(causes(&echo[0]), [(code::UNRECOGNISED_PARAMETERS, SUPPORTED.to_vec())]);
        }
    }
}
