//! Status codes (RFC 3261 section 21) and their usual reason phrases.

use core::fmt;

/// A response's status code, from 100 to 699.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatusCode(u16);

macro_rules! codes {
    ($($name:ident = $code:literal $reason:literal;)*) => {
        impl StatusCode {
            $(
                #[doc = concat!($code, " ", $reason)]
                pub const $name: Self = Self($code);
            )*

            /// The status line with the usual phrase; `None` if the code is unknown.
            pub(crate) const fn usual_line(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(concat!("SIP/2.0 ", $code, " ", $reason, "\r\n")),)*
                    _ => None,
                }
            }

            /// The usual reason phrase of the code, or that of its class if the code is unknown.
            #[must_use]
            pub const fn reason(self) -> &'static str {
                match self.0 {
                    $($code => $reason,)*
                    100..=199 => "Progress",
                    200..=299 => "Success",
                    300..=399 => "Redirection",
                    400..=499 => "Client Error",
                    500..=599 => "Server Error",
                    _ => "Global Failure",
                }
            }
        }
    };
}

codes! {
    TRYING = 100 "Trying";
    RINGING = 180 "Ringing";
    CALL_IS_BEING_FORWARDED = 181 "Call Is Being Forwarded";
    QUEUED = 182 "Queued";
    SESSION_PROGRESS = 183 "Session Progress";
    EARLY_DIALOG_TERMINATED = 199 "Early Dialog Terminated";
    OK = 200 "OK";
    ACCEPTED = 202 "Accepted";
    NO_NOTIFICATION = 204 "No Notification";
    MULTIPLE_CHOICES = 300 "Multiple Choices";
    MOVED_PERMANENTLY = 301 "Moved Permanently";
    MOVED_TEMPORARILY = 302 "Moved Temporarily";
    USE_PROXY = 305 "Use Proxy";
    ALTERNATIVE_SERVICE = 380 "Alternative Service";
    BAD_REQUEST = 400 "Bad Request";
    UNAUTHORIZED = 401 "Unauthorized";
    PAYMENT_REQUIRED = 402 "Payment Required";
    FORBIDDEN = 403 "Forbidden";
    NOT_FOUND = 404 "Not Found";
    METHOD_NOT_ALLOWED = 405 "Method Not Allowed";
    NOT_ACCEPTABLE = 406 "Not Acceptable";
    PROXY_AUTHENTICATION_REQUIRED = 407 "Proxy Authentication Required";
    REQUEST_TIMEOUT = 408 "Request Timeout";
    GONE = 410 "Gone";
    CONDITIONAL_REQUEST_FAILED = 412 "Conditional Request Failed";
    REQUEST_ENTITY_TOO_LARGE = 413 "Request Entity Too Large";
    REQUEST_URI_TOO_LONG = 414 "Request-URI Too Long";
    UNSUPPORTED_MEDIA_TYPE = 415 "Unsupported Media Type";
    UNSUPPORTED_URI_SCHEME = 416 "Unsupported URI Scheme";
    UNKNOWN_RESOURCE_PRIORITY = 417 "Unknown Resource-Priority";
    BAD_EXTENSION = 420 "Bad Extension";
    EXTENSION_REQUIRED = 421 "Extension Required";
    SESSION_INTERVAL_TOO_SMALL = 422 "Session Interval Too Small";
    INTERVAL_TOO_BRIEF = 423 "Interval Too Brief";
    BAD_LOCATION_INFORMATION = 424 "Bad Location Information";
    USE_IDENTITY_HEADER = 428 "Use Identity Header";
    PROVIDE_REFERRER_IDENTITY = 429 "Provide Referrer Identity";
    FLOW_FAILED = 430 "Flow Failed";
    ANONYMITY_DISALLOWED = 433 "Anonymity Disallowed";
    FIRST_HOP_LACKS_OUTBOUND_SUPPORT = 439 "First Hop Lacks Outbound Support";
    MAX_BREADTH_EXCEEDED = 440 "Max-Breadth Exceeded";
    BAD_INFO_PACKAGE = 469 "Bad Info Package";
    TEMPORARILY_UNAVAILABLE = 480 "Temporarily Unavailable";
    NO_SUCH_TRANSACTION = 481 "Call/Transaction Does Not Exist";
    LOOP_DETECTED = 482 "Loop Detected";
    TOO_MANY_HOPS = 483 "Too Many Hops";
    ADDRESS_INCOMPLETE = 484 "Address Incomplete";
    AMBIGUOUS = 485 "Ambiguous";
    BUSY_HERE = 486 "Busy Here";
    REQUEST_TERMINATED = 487 "Request Terminated";
    NOT_ACCEPTABLE_HERE = 488 "Not Acceptable Here";
    BAD_EVENT = 489 "Bad Event";
    REQUEST_PENDING = 491 "Request Pending";
    UNDECIPHERABLE = 493 "Undecipherable";
    SECURITY_AGREEMENT_REQUIRED = 494 "Security Agreement Required";
    SERVER_INTERNAL_ERROR = 500 "Server Internal Error";
    NOT_IMPLEMENTED = 501 "Not Implemented";
    BAD_GATEWAY = 502 "Bad Gateway";
    SERVICE_UNAVAILABLE = 503 "Service Unavailable";
    SERVER_TIME_OUT = 504 "Server Time-out";
    VERSION_NOT_SUPPORTED = 505 "Version Not Supported";
    MESSAGE_TOO_LARGE = 513 "Message Too Large";
    PRECONDITION_FAILURE = 580 "Precondition Failure";
    BUSY_EVERYWHERE = 600 "Busy Everywhere";
    DECLINE = 603 "Decline";
    DOES_NOT_EXIST_ANYWHERE = 604 "Does Not Exist Anywhere";
    NOT_ACCEPTABLE_ANYWHERE = 606 "Not Acceptable";
    UNWANTED = 607 "Unwanted";
}

impl StatusCode {
    /// Creates a status code, or returns `None` if `code` is not between 100 and 699. A response with a
    /// larger code must be dropped (RFC 4475 section 3.1.2.19).
    #[must_use]
    pub const fn new(code: u16) -> Option<Self> {
        if code >= 100 && code <= 699 { Some(Self(code)) } else { None }
    }

    /// The code as a number.
    #[must_use]
    pub const fn code(self) -> u16 {
        self.0
    }

    /// The first digit: 1 for provisional responses, 2 for success, up to 6.
    #[must_use]
    pub const fn class(self) -> u16 {
        self.0 / 100
    }

    /// Returns true for 100 to 199: a final response will follow.
    #[must_use]
    pub const fn is_provisional(self) -> bool {
        self.0 < 200
    }

    /// Returns true for 200 to 299.
    #[must_use]
    pub const fn is_success(self) -> bool {
        self.class() == 2
    }
}

impl fmt::Display for StatusCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
