//! How long a fault may live without being renewed.
//!
//! Every heartbeat that the controller answers renews all leases. The service holds the lease of the
//! agent as a whole ([`Lease`]); the case holds one a fault, through its trigger engine, with the
//! same rule ([`expires`]). Pure: time is an argument.

use ringbreaker_scenarios::units::Nanos;

/// When something that began at `began` and whose lease was last renewed at `renewed` must end.
pub fn expires(began: Nanos, renewed: Nanos, lease: Nanos) -> Nanos {
    began.max(renewed) + lease
}

/// The agent's own lease: when it ends, the agent heals every fault and ends its case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    length: Nanos,
    renewed: Nanos,
}

impl Lease {
    /// A lease of this length, renewed now.
    pub fn new(length: Nanos, now: Nanos) -> Lease {
        Lease { length, renewed: now }
    }

    /// The controller answered a heartbeat that was sent at `sent`. Never shortens the lease.
    pub fn renew(&mut self, sent: Nanos) {
        self.renewed = self.renewed.max(sent);
    }

    /// Another controller, or the same one anew, asks for another length.
    pub fn set_length(&mut self, length: Nanos) {
        self.length = length;
    }

    /// How long it lasts after each renewal.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// When it ends unless it is renewed.
    pub fn ends(&self) -> Nanos {
        expires(self.renewed, self.renewed, self.length)
    }

    /// Whether it has ended.
    pub fn over(&self, now: Nanos) -> bool {
        now >= self.ends()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_a_whole_length_after_its_last_renewal() {
        let mut lease = Lease::new(Nanos(10), Nanos(100));
        assert!(!lease.over(Nanos(109)) && lease.over(Nanos(110)));
        lease.renew(Nanos(105));
        assert!(!lease.over(Nanos(114)) && lease.over(Nanos(115)));
    }

    #[test]
    fn a_late_answer_to_an_early_heartbeat_does_not_shorten_it() {
        let mut lease = Lease::new(Nanos(10), Nanos(100));
        lease.renew(Nanos(50));
        assert_eq!(lease.ends(), Nanos(110));
    }

    #[test]
    fn a_fault_that_began_after_the_last_renewal_has_its_whole_lease() {
        assert_eq!(expires(Nanos(20), Nanos(5), Nanos(10)), Nanos(30));
        assert_eq!(expires(Nanos(20), Nanos(25), Nanos(10)), Nanos(35));
    }
}
