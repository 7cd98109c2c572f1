use rcgen::{CertificateParams, KeyPair, SanType, date_time_ymd};

use super::*;

fn proved(dns: &[&str], uris: &[&str]) -> Vec<String> {
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = dns.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    for uri in uris {
        params.subject_alt_names.push(SanType::URI((*uri).try_into().unwrap()));
    }
    domains(params.self_signed(&key).unwrap().der())
}

#[test]
fn sip_uris_count_before_dns_names() {
    assert_eq!(proved(&["a.example", "b.example"], &[]), ["a.example", "b.example"]);
    assert_eq!(proved(&["a.example"], &["sip:c.example", "SIP:d.example"]), ["c.example", "d.example"]);
}

#[test]
fn other_uri_schemes_prove_no_domain() {
    let others = ["sip:bob@c.example", "https://c.example", "sips:c.example", "sip:;lr", "sip:"];
    assert_eq!(proved(&["a.example"], &others), ["a.example"]);
    assert!(domains(&CertificateDer::from(vec![1, 2, 3])).is_empty());
    // Neither port nor parameters change the identity (section 7.2).
    assert_eq!(
        proved(&["a.example"], &["sip:c.example:5061", "sip:d.example;lr"]),
        ["c.example", "d.example"]
    );
}

#[test]
fn domains_compare_without_case_or_wildcards() {
    assert!(is_domain("Example.COM", "example.com") && is_domain("example.com.", "example.com"));
    for (proved, wanted) in [
        ("*.example.com", "sip.example.com"),
        ("sip.example.com", "example.com"),
        ("*.example.com", "*.example.com"),
    ] {
        assert!(!is_domain(proved, wanted), "{proved} {wanted}");
    }
}

#[test]
fn addresses_are_proved_by_certificates_for_them() {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["192.0.2.1".to_owned(), "2001:db8::1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let proves = |address: &str| proves_address(certificate.der(), address.parse().unwrap());
    assert!(proves("192.0.2.1") && proves("2001:db8::1"));
    assert!(!proves("192.0.2.2") && !proves("2001:db8::2"));
    assert!(!proves_address(&CertificateDer::from(vec![1, 2, 3]), "192.0.2.1".parse().unwrap()));
}

#[test]
fn certificate_validity_is_reported() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    // 2020-01-01 and 2061-01-01 use the two encodings of a time (RFC 5280 section 4.1.2.5).
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2061, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    assert_eq!(validity(certificate.der()), Some((1_577_836_800, 2_871_763_200)));
    assert_eq!(validity(&CertificateDer::from(vec![1, 2, 3])), None);
}
