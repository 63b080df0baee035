//! The price of a platform, in money.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Span;

/// Microseconds in an hour.
const HOUR_US: u128 = 3_600_000_000;

/// An amount of money in millionths of the currency's unit, so that records hold it exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Money(pub u64);

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.0 as f64 / 1e6;
        // A task or two must not seem to cost nothing.
        if self.0 > 0 && amount < 0.1 { write!(f, "{amount:.4}") } else { write!(f, "{amount:.2}") }
    }
}

impl Money {
    /// Returns the amount with all its digits, at least two of them decimals.
    pub fn exact(self) -> String {
        let text = format!("{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000);
        let n_zeros = text.len() - text.trim_end_matches('0').len();
        text[..text.len() - n_zeros.min(4)].to_owned()
    }
}

/// The price of a core for an hour.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Price {
    /// The amount.
    pub core_hour: Money,
    /// The currency of the amount.
    pub currency: String,
}

impl Price {
    /// Returns the price of this many cores × time, rounded up.
    pub fn of(&self, core_time: Span) -> Money {
        let micros = (u128::from(core_time.0) * u128::from(self.core_hour.0)).div_ceil(HOUR_US);
        Money(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    /// Returns the cores × time that this amount pays for.
    pub fn affords(&self, money: Money) -> Span {
        let span = (u128::from(money.0) * HOUR_US).checked_div(self.core_hour.0.into());
        Span(span.map_or(u64::MAX, |span| u64::try_from(span).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Money, Price};
    use crate::time::Span;

    fn price(core_hour: u64) -> Price {
        Price { core_hour: Money(core_hour), currency: "EUR".into() }
    }

    #[test]
    fn hours_have_their_price() {
        let cheap = price(40_000);
        assert_eq!(cheap.of(Span::from_secs(3600).times(100)).to_string(), "4.00");
        assert_eq!(cheap.of(Span::from_secs(60)).to_string(), "0.0007");
        let exact = [Money(125_000), Money(40_000), Money(2_000_000), Money(1)].map(Money::exact);
        assert_eq!(exact, ["0.125", "0.04", "2.00", "0.000001"]);
        assert_eq!(cheap.affords(Money(4_000_000)), Span::from_secs(360_000));
        assert_eq!((price(0).affords(Money(1)), price(0).of(Span(u64::MAX))), (Span(u64::MAX), Money(0)));
    }

    proptest! {
        #[test]
        fn what_is_afforded_costs_no_more(core_hour in 1..u64::MAX, money in 0..u64::MAX) {
            let price = price(core_hour);
            prop_assert!(price.of(price.affords(Money(money))) <= Money(money));
        }
    }
}
