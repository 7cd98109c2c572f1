use super::*;

#[test]
fn an_identity_is_read_as_it_was_made() {
    let text = Identity::generate("name").unwrap();
    let identity = Identity::from_pem(&text).unwrap();
    let seen = PeerIdentity::of_certificate(&identity.certificate).unwrap();
    assert_eq!(seen.fingerprint, identity.fingerprint());
    assert!(!format!("{identity:?}").contains("private"), "a key is never printed");
}

#[test]
fn broken_identities_are_refused() {
    let split = |text: &str| text.split_once("-----BEGIN CERT").map(|(key, _)| key.to_owned()).unwrap();
    let (one, other) = (Identity::generate("one").unwrap(), Identity::generate("other").unwrap());
    let key = split(&one);
    let certificate = other.strip_prefix(&split(&other)).unwrap();
    let read = |text: &str| Identity::from_pem(text).unwrap_err();
    assert_eq!(read(&(key.clone() + certificate)), IdentityError::OtherKey);
    assert_eq!(read(&key), IdentityError::NoCertificate);
    assert_eq!(read(certificate), IdentityError::NoKey);
    assert_eq!(read(""), IdentityError::NoCertificate);
}
