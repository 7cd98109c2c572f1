//! Header names and their compact forms, found by a perfect hash.

use core::fmt;

use super::scan;

macro_rules! names {
    ($($variant:ident = $name:literal, $compact:literal, $rfc:literal;)*) => {
        /// The name of a header that this codec knows. All others are [`Other`](Self::Other), and
        /// [`Header::name_bytes`](super::Header::name_bytes) returns their text.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum HeaderName {
            $(
                #[doc = concat!("`", $name, "` (RFC ", $rfc, ")")]
                $variant,
            )*
            /// Any other header.
            Other,
        }

        /// All names, in the order of their discriminants.
        const NAMES: [(HeaderName, &str, &str); HeaderName::Other as usize] =
            [$((HeaderName::$variant, $name, $compact),)*];

        /// The text before a value, in the order of [`NAMES`].
        static BEFORE_VALUE: [&str; HeaderName::Other as usize] = [$(concat!($name, ": "),)*];
    };
}

names! {
    Accept = "Accept", "", "3261";
    AcceptContact = "Accept-Contact", "a", "3841";
    AcceptEncoding = "Accept-Encoding", "", "3261";
    AcceptLanguage = "Accept-Language", "", "3261";
    AcceptResourcePriority = "Accept-Resource-Priority", "", "4412";
    AlertInfo = "Alert-Info", "", "3261";
    Allow = "Allow", "", "3261";
    AllowEvents = "Allow-Events", "u", "6665";
    AuthenticationInfo = "Authentication-Info", "", "3261";
    Authorization = "Authorization", "", "3261";
    CallId = "Call-ID", "i", "3261";
    CallInfo = "Call-Info", "", "3261";
    Contact = "Contact", "m", "3261";
    ContentDisposition = "Content-Disposition", "", "3261";
    ContentEncoding = "Content-Encoding", "e", "3261";
    ContentLanguage = "Content-Language", "", "3261";
    ContentLength = "Content-Length", "l", "3261";
    ContentType = "Content-Type", "c", "3261";
    CSeq = "CSeq", "", "3261";
    Date = "Date", "", "3261";
    Diversion = "Diversion", "", "5806";
    ErrorInfo = "Error-Info", "", "3261";
    Event = "Event", "o", "6665";
    Expires = "Expires", "", "3261";
    FeatureCaps = "Feature-Caps", "", "6809";
    FlowTimer = "Flow-Timer", "", "5626";
    From = "From", "f", "3261";
    HistoryInfo = "History-Info", "", "7044";
    Identity = "Identity", "y", "8224";
    InReplyTo = "In-Reply-To", "", "3261";
    MaxBreadth = "Max-Breadth", "", "5393";
    MaxForwards = "Max-Forwards", "", "3261";
    MimeVersion = "MIME-Version", "", "3261";
    MinExpires = "Min-Expires", "", "3261";
    MinSe = "Min-SE", "", "4028";
    Organization = "Organization", "", "3261";
    PAccessNetworkInfo = "P-Access-Network-Info", "", "7315";
    PAssertedIdentity = "P-Asserted-Identity", "", "3325";
    PAssociatedUri = "P-Associated-URI", "", "7315";
    PCalledPartyId = "P-Called-Party-ID", "", "7315";
    PChargingVector = "P-Charging-Vector", "", "7315";
    PPreferredIdentity = "P-Preferred-Identity", "", "3325";
    PVisitedNetworkId = "P-Visited-Network-ID", "", "7315";
    Path = "Path", "", "3327";
    Priority = "Priority", "", "3261";
    Privacy = "Privacy", "", "3323";
    ProxyAuthenticate = "Proxy-Authenticate", "", "3261";
    ProxyAuthorization = "Proxy-Authorization", "", "3261";
    ProxyRequire = "Proxy-Require", "", "3261";
    RAck = "RAck", "", "3262";
    Reason = "Reason", "", "3326";
    RecordRoute = "Record-Route", "", "3261";
    ReferTo = "Refer-To", "r", "3515";
    ReferredBy = "Referred-By", "b", "3892";
    RejectContact = "Reject-Contact", "j", "3841";
    Replaces = "Replaces", "", "3891";
    ReplyTo = "Reply-To", "", "3261";
    RequestDisposition = "Request-Disposition", "d", "3841";
    Require = "Require", "", "3261";
    ResourcePriority = "Resource-Priority", "", "4412";
    RetryAfter = "Retry-After", "", "3261";
    Route = "Route", "", "3261";
    RSeq = "RSeq", "", "3262";
    SecurityClient = "Security-Client", "", "3329";
    SecurityServer = "Security-Server", "", "3329";
    SecurityVerify = "Security-Verify", "", "3329";
    Server = "Server", "", "3261";
    ServiceRoute = "Service-Route", "", "3608";
    SessionExpires = "Session-Expires", "x", "4028";
    SipEtag = "SIP-ETag", "", "3903";
    SipIfMatch = "SIP-If-Match", "", "3903";
    Subject = "Subject", "s", "3261";
    SubscriptionState = "Subscription-State", "", "6665";
    Supported = "Supported", "k", "3261";
    Timestamp = "Timestamp", "", "3261";
    To = "To", "t", "3261";
    Unsupported = "Unsupported", "", "3261";
    UserAgent = "User-Agent", "", "3261";
    Via = "Via", "v", "3261";
    Warning = "Warning", "", "3261";
    WwwAuthenticate = "WWW-Authenticate", "", "3261";
}

/// The number of names, without [`HeaderName::Other`].
pub(crate) const NAMES_LEN: usize = NAMES.len();

/// The length of the longest name, in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 24;

/// A name as three words of eight bytes, in lowercase and padded with zeros.
pub(crate) type Words = [u64; NAME_BYTES_MAX / 8];

/// The bit that distinguishes lowercase from uppercase letters. `-` has it set too, so it does not change;
/// control characters would change and are excluded beforehand.
const SMALL: u64 = 0x2020_2020_2020_2020;

/// The number of compact forms.
const COMPACT_FORMS: usize = 19;

/// The number of names and compact forms.
const KEYS_LEN: usize = NAMES_LEN + COMPACT_FORMS;

/// All names and compact forms as words.
static KEYS: [(Words, HeaderName); KEYS_LEN] = keys();

/// A multiplier that hashes all keys to different slots, found by trial; [`table`] verifies this at compile
/// time.
const MULTIPLIER: u64 = 0xb77b_6341_f10f_7d3b;

/// The number of slots in the hash table, as a power of two.
const PLACES_LOG2: u32 = 9;

/// For each slot, the number of its key, or the number of keys if the slot is empty.
static PLACES: [u8; 1 << PLACES_LOG2] = table();

#[inline(always)]
const fn place(words: &Words) -> usize {
    let [a, b, c] = *words;
    ((a ^ (b >> 3) ^ (c >> 5)).wrapping_mul(MULTIPLIER) >> (u64::BITS - PLACES_LOG2)) as usize
}

/// Compares word by word. An array comparison would read the words back from memory in other sizes than they
/// were written, which stalls the processor.
#[inline(always)]
const fn same(a: &Words, b: &Words) -> bool {
    let ([a0, a1, a2], [b0, b1, b2]) = (*a, *b);
    (a0 ^ b0) | (a1 ^ b1) | (a2 ^ b2) == 0
}

const fn words_of(name: &[u8]) -> Words {
    let mut words = [0; 3];
    let mut at = 0;
    while at < name.len() {
        words[at / 8] |= ((name[at] | 0x20) as u64) << (8 * (at % 8));
        at += 1;
    }
    words
}

const fn keys() -> [(Words, HeaderName); KEYS_LEN] {
    let mut keys = [([0; 3], HeaderName::Other); KEYS_LEN];
    let (mut number, mut next) = (0, NAMES_LEN);
    while number < NAMES_LEN {
        let (header, name, compact) = NAMES[number];
        keys[number] = (words_of(name.as_bytes()), header);
        if !compact.is_empty() {
            keys[next] = (words_of(compact.as_bytes()), header);
            next += 1;
        }
        number += 1;
    }
    assert!(next == KEYS_LEN, "count the compact forms");
    keys
}

const fn table() -> [u8; 512] {
    let mut places = [KEYS_LEN as u8; 512];
    let keys = keys();
    let mut number = 0;
    while number < KEYS_LEN {
        let place = place(&keys[number].0);
        assert!(places[place] == KEYS_LEN as u8, "two names in one place: look for another multiplier");
        places[place] = number as u8;
        number += 1;
    }
    places
}

impl HeaderName {
    /// Returns the header with this name, in any case, long or compact (RFC 3261 section 7.3.3).
    ///
    /// ```
    /// use strandline_sip::codec::HeaderName;
    ///
    /// assert_eq!(HeaderName::from_bytes(b"call-id"), HeaderName::CallId);
    /// assert_eq!(HeaderName::from_bytes(b"I"), HeaderName::CallId);
    /// assert_eq!(HeaderName::from_bytes(b"X-Mine"), HeaderName::Other);
    /// ```
    #[must_use]
    pub fn from_bytes(name: &[u8]) -> Self {
        // One byte more, for the colon.
        let mut line = [b':'; NAME_BYTES_MAX + 1];
        match line.get_mut(..name.len()) {
            Some(place) if name.len() <= NAME_BYTES_MAX => place.copy_from_slice(name),
            _ => return Self::Other,
        }
        match line.first_chunk() {
            Some(window) if name.len() < NAME_BYTES_MAX => match Self::before_colon(window) {
                (header, length) if length == name.len() => header,
                _ => Self::Other,
            },
            // The longest name fills the window.
            _ => Self::longest(name),
        }
    }

    /// The only name that leaves no room for its colon in the window.
    #[cold]
    fn longest(name: &[u8]) -> Self {
        let longest = Self::AcceptResourcePriority;
        if longest.as_str().as_bytes().eq_ignore_ascii_case(name) { longest } else { Self::Other }
    }

    /// Reads the name at the start of `window`, which a colon must follow directly. Returns the name and its
    /// length, or [`Other`](Self::Other) and 0 if the name is unknown or the colon is missing.
    #[inline(always)]
    pub(crate) fn before_colon(window: &[u8; NAME_BYTES_MAX]) -> (Self, usize) {
        let (eights, _) = window.as_chunks::<8>();
        let mut words = [0; 3];
        let mut length = 0;
        for (number, (word, eight)) in words.iter_mut().zip(eights).enumerate() {
            let text = u64::from_le_bytes(*eight);
            let colon = scan::equal(text, b':');
            // Only the lowest set bit is certain, and only that one is used.
            let lowest = colon & colon.wrapping_neg();
            let before = (lowest >> 7).wrapping_sub(1);
            *word = (text | SMALL) & before;
            if scan::below(text, 0x20) & before != 0 {
                return (Self::Other, 0);
            }
            if colon != 0 {
                length = 8 * number + (colon.trailing_zeros() / 8) as usize;
                break;
            }
        }
        let number = PLACES[place(&words)];
        match KEYS.get(usize::from(number)) {
            Some((key, header)) if same(key, &words) && length > 0 => (*header, length),
            _ => (Self::Other, 0),
        }
    }

    /// The name as it is usually written; empty for [`Other`](Self::Other).
    #[must_use]
    pub fn as_str(self) -> &'static str {
        NAMES.get(self as usize).map_or("", |(_, text, _)| *text)
    }

    /// The name as it is usually written, with the colon and the space before a value; empty for
    /// [`Other`](Self::Other).
    #[inline]
    pub(crate) fn before_value(self) -> &'static [u8] {
        BEFORE_VALUE.get(self as usize).map_or(b"", |text| text.as_bytes())
    }

    /// The compact form, if there is one.
    #[must_use]
    pub fn compact(self) -> Option<&'static str> {
        NAMES.get(self as usize).map(|(_, _, compact)| *compact).filter(|compact| !compact.is_empty())
    }

    /// All names, without [`Other`](Self::Other).
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|(header, _, _)| *header)
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests;
