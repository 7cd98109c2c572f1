use super::*;
use crate::config::{ErrorDetectionMethod, ExtensionsConfig};

const SOME: Extensions = Extensions(2);
const OTHER: Extensions = Extensions(4);

/// A table with an extension that only its chunk types declare, and one that has a parameter too.
const TEST_TABLE: &[Extension] = &[
    Extension { extension: SOME, wanted: |config| config.nodelay, parameter: None, chunks: &[130] },
    Extension {
        extension: OTHER,
        wanted: |config| config.bundling,
        parameter: Some(Parameter::EcnCapable),
        chunks: &[192, 193],
    },
];

#[test]
fn chunk_types_and_parameters_declare_extensions() {
    let config = AssociationConfig { nodelay: true, bundling: true, ..AssociationConfig::default() };
    let both = wanted(TEST_TABLE, &config);
    assert_eq!(both, SOME.or(OTHER));
    let mut kinds = Kinds::default();
    let sent: Vec<_> = parameters(TEST_TABLE, both, &mut kinds).collect();
    assert_eq!(sent, [Parameter::EcnCapable, Parameter::SupportedExtensions(&[130, 192, 193])]);
    assert_eq!(parameters(TEST_TABLE, Extensions::default(), &mut Kinds::default()).count(), 0);
    for (kinds, declared) in [
        (&[130][..], SOME),
        (&[192], Extensions::default()),
        (&[193, 7, 192], OTHER),
        (&[130, 192, 193], both),
        (&[], Extensions::default()),
    ] {
        assert_eq!(declared_by(TEST_TABLE, &Parameter::SupportedExtensions(kinds)), declared, "{kinds:?}");
    }
    assert_eq!(declared_by(TEST_TABLE, &Parameter::EcnCapable), OTHER);
}

#[test]
fn both_sides_must_offer_an_extension() {
    for (here, there) in [(true, true), (true, false), (false, true)] {
        let extensions = |ecn| ExtensionsConfig { ecn, ..ExtensionsConfig::NONE };
        let config = |ecn| AssociationConfig { extensions: extensions(ecn), ..AssociationConfig::default() };
        let mut declared = Declared::default();
        let (peer, mut kinds) = (Features::offered_by(&config(there)), Kinds::default());
        peer.offer(&mut kinds).for_each(|parameter| declared.read(&parameter));
        let features = Features::offered_by(&config(here)).agreed_with(&declared);
        assert_eq!((features.offers(Extensions::ECN), features.has(Extensions::ECN)), (here, here && there));
        assert_eq!(features.answer(&mut Kinds::default()).count(), usize::from(here && there));
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
    offered.offer(&mut Kinds::default()).for_each(|parameter| declared.read(&parameter));
    let agreed = offered.agreed_with(&declared);
    assert!(agreed.has(Extensions::ECN) && agreed.zero_checksum.by_peer);
    assert_eq!(Features::from_bytes(agreed.to_bytes()), agreed);
    // The same parameter twice declares no method (RFC 9653 section 4).
    offered.offer(&mut Kinds::default()).for_each(|parameter| declared.read(&parameter));
    assert!(!offered.agreed_with(&declared).zero_checksum.by_peer);
}

#[test]
fn all_chunk_types_have_room() {
    let kinds: usize = TABLE.iter().map(|row| row.chunks.len()).sum();
    assert!(kinds <= KINDS_MAX, "{kinds}");
}
