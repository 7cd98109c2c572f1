use strandline_wire::parameter::Parameters;

use super::*;
use crate::config::{ErrorDetectionMethod, ExtensionsConfig};

const SOME: Extensions = Extensions(2);
const OTHER: Extensions = Extensions(4);

/// A table with an extension that only its chunk types declare, and one that has a parameter too.
const TEST_TABLE: &[Extension] = &[
    Extension {
        extension: SOME,
        wanted: |config| config.nodelay,
        parameter: None,
        chunks: &[130],
        unknown_kinds: &[130],
    },
    Extension {
        extension: OTHER,
        wanted: |config| config.bundling,
        parameter: Some(parameter::kind::ECN_CAPABLE),
        chunks: &[192, 193],
        unknown_kinds: &[193],
    },
];

/// Returns the bytes of the parameters that `write` writes.
fn written(write: impl FnOnce(&mut TlvWriter<'_>)) -> Vec<u8> {
    let mut buffer = [0; 256];
    let mut writer = TlvWriter::new(&mut buffer);
    write(&mut writer);
    writer.finish().to_vec()
}

/// Reads the parameters of an INIT of a side that offers `features`.
fn read_offer(declared: &mut Declared, features: Features) {
    for raw in Parameters::new(&written(|writer| features.offer(writer))).iter() {
        declared.read(&raw.unwrap().parse().unwrap());
    }
}

#[test]
fn chunk_types_and_parameters_declare_extensions() {
    let config = AssociationConfig { nodelay: true, bundling: true, ..AssociationConfig::default() };
    let both = wanted(TEST_TABLE, &config);
    assert_eq!(both, SOME.or(OTHER));
    let mut expected = [0; 64];
    let mut writer = TlvWriter::new(&mut expected);
    for parameter in [Parameter::EcnCapable, Parameter::SupportedExtensions(&[130, 192, 193])] {
        assert!(writer.push(&parameter));
    }
    let expected = writer.finish();
    assert_eq!(written(|writer| declare(TEST_TABLE, both, writer)), expected);
    assert!(written(|writer| declare(TEST_TABLE, Extensions::default(), writer)).is_empty());
    for (kinds, declared) in [
        (&[130][..], SOME),
        (&[192], Extensions::default()),
        (&[193, 7, 192], OTHER),
        (&[130, 192, 193], both),
        (&[], Extensions::default()),
    ] {
        assert_eq!(declared_by_chunks(TEST_TABLE, kinds), declared, "{kinds:?}");
    }
    assert_eq!(declared_by_parameter(TEST_TABLE, parameter::kind::ECN_CAPABLE), OTHER);
    assert_eq!(declared_by_parameter(TEST_TABLE, parameter::kind::STATE_COOKIE), Extensions::default());
}

#[test]
fn both_sides_must_offer_an_extension() {
    for (here, there) in [(true, true), (true, false), (false, true)] {
        let extensions = |ecn| ExtensionsConfig { ecn, ..ExtensionsConfig::NONE };
        let config = |ecn| AssociationConfig { extensions: extensions(ecn), ..AssociationConfig::default() };
        let mut declared = Declared::default();
        read_offer(&mut declared, Features::offered_by(&config(there)));
        let features = Features::offered_by(&config(here)).agreed_with(&declared);
        assert_eq!((features.offers(Extensions::ECN), features.has(Extensions::ECN)), (here, here && there));
        assert_eq!(!written(|writer| features.answer(writer)).is_empty(), here && there);
        assert!(!features.offered_again().has(Extensions::ECN));
    }
}

#[test]
fn cookies_keep_what_was_agreed() {
    let method = Some(ErrorDetectionMethod::SctpOverDtls);
    let extensions = ExtensionsConfig { ecn: true, zero_checksum: method, ..ExtensionsConfig::NONE };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    let offered = Features::offered_by(&config);
    let mut declared = Declared::default();
    read_offer(&mut declared, offered);
    let agreed = offered.agreed_with(&declared);
    assert!(agreed.has(Extensions::ECN) && agreed.zero_checksum.by_peer);
    assert_eq!(Features::from_bytes(agreed.to_bytes()), agreed);
    // The same parameter twice declares no method (RFC 9653 section 4).
    read_offer(&mut declared, offered);
    assert!(!offered.agreed_with(&declared).zero_checksum.by_peer);
}

/// Chunk types of extensions that are violations without agreement (RFC 8260 section 2.1), not unknown.
const VIOLATIONS: [u8; 2] = [kind::I_DATA, kind::I_FORWARD_TSN];

#[test]
fn chunks_of_every_extension_need_agreement() {
    let none = Features::offered_by(&AssociationConfig::default()).agreed_with(&Declared::default());
    for row in TABLE {
        let agreed = Features { agreed: row.extension, ..none };
        for kind in row.chunks.iter().filter(|kind| !VIOLATIONS.contains(kind)).chain(row.unknown_kinds) {
            assert!(none.is_unknown(*kind), "{kind} of {:?}", row.extension);
            assert!(!agreed.is_unknown(*kind), "{kind} of {:?}", row.extension);
        }
    }
    for kind in [kind::STREAM_CREDIT, kind::STREAM_BLOCKED] {
        assert!(none.is_unknown(kind), "{kind}");
    }
    for kind in VIOLATIONS.into_iter().chain([kind::DATA, kind::SACK, kind::ECNE, kind::CWR, 255]) {
        assert!(!none.is_unknown(kind), "{kind}");
    }
    let interleaving = Features { agreed: Extensions::INTERLEAVING, ..none };
    assert!(!interleaving.is_unknown(kind::FORWARD_TSN), "a violation");
}

#[test]
fn new_extensions_make_their_chunks_unknown() {
    let needed = needed_by_kind(TEST_TABLE);
    assert_eq!((needed[130], needed[192], needed[193]), (SOME, Extensions::default(), OTHER));
}
