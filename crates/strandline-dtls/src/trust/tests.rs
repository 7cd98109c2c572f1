use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use super::*;
use crate::identity::Identity;

fn identity() -> Identity {
    Identity::from_pem(&Identity::generate("test").unwrap()).unwrap()
}

fn now() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000))
}

fn server(name: Option<&str>) -> Peer<'_> {
    Peer::Server { address: "192.0.2.1:9899".parse().unwrap(), name }
}

#[test]
fn nobody_is_trusted_by_default() {
    let peer = identity();
    let verdict = Trust::nobody().verify(Peer::Client, &peer.certificate, now());
    assert_eq!(verdict, Err(TrustError::UnknownClient(peer.fingerprint())));
}

#[test]
fn a_pinned_key_is_trusted_everywhere() {
    let peer = identity();
    let trust = Trust::nobody().pin(peer.fingerprint());
    assert!(trust.verify(Peer::Client, &peer.certificate, now()).is_ok());
    assert!(trust.verify(server(None), &peer.certificate, now()).is_ok());
    assert!(trust.verify(server(None), &identity().certificate, now()).is_err());
}

#[test]
fn a_learned_server_may_not_change() {
    let (first, second) = (identity(), identity());
    let trust = Trust::nobody().hosts(KnownHosts::default(), true);
    let verified = trust.verify(server(Some("host")), &first.certificate, now()).unwrap();
    assert_eq!(verified.learned.unwrap().name, "host");
    assert!(trust.verify(server(Some("host")), &first.certificate, now()).unwrap().learned.is_none());
    let changed = trust.verify(server(Some("host")), &second.certificate, now());
    assert!(matches!(changed, Err(TrustError::Changed { .. })));
}

#[test]
fn without_first_use_unknown_servers_are_refused() {
    let trust = Trust::nobody().hosts(KnownHosts::default(), false);
    assert!(trust.verify(server(Some("host")), &identity().certificate, now()).is_err());
}

#[test]
fn clients_are_never_learned() {
    let trust = Trust::nobody().hosts(KnownHosts::default(), true);
    assert!(trust.verify(Peer::Client, &identity().certificate, now()).is_err());
}

/// A certificate for `names`, signed by an authority, and the authority's in PEM format.
fn issued(names: &[&str], usage: ExtendedKeyUsagePurpose) -> (Vec<u8>, String) {
    let mut authority = CertificateParams::new([]).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.not_after = rcgen::date_time_ymd(2040, 1, 1);
    let authority_key = KeyPair::generate().unwrap();
    let authority_certificate = authority.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(authority, authority_key);
    let mut leaf =
        CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
    leaf.extended_key_usages = vec![usage];
    leaf.not_after = rcgen::date_time_ymd(2030, 1, 1);
    let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
    (leaf.der().to_vec(), authority_certificate.pem())
}

#[test]
fn an_authority_vouches_for_name_and_use() {
    let (certificate, authority) =
        issued(&["host.example", "192.0.2.1"], ExtendedKeyUsagePurpose::ServerAuth);
    let trust = Trust::nobody().authorities(&authority).unwrap();
    assert!(trust.verify(server(Some("host.example")), &certificate, now()).is_ok());
    assert!(trust.verify(server(None), &certificate, now()).is_ok());
    for refused in [server(Some("other.example")), Peer::Client] {
        let error = trust.verify(refused, &certificate, now()).unwrap_err();
        let TrustError::Certificate { presented, .. } = &error else { panic!("{error}") };
        // What makes it trusted all the same.
        assert!(error.to_string().ends_with(&format!(": --trust {presented}")), "{error}");
        assert!(Trust::nobody().pin(*presented).verify(refused, &certificate, now()).is_ok());
    }
    let later = UnixTime::since_unix_epoch(Duration::from_secs(1_999_999_999));
    assert!(trust.verify(server(Some("host.example")), &certificate, later).is_err());
    assert!(trust.verify(server(Some("host.example")), &identity().certificate, now()).is_err());
}
