//! Field `price` of a platform: the cost of a core-hour or a pilot-hour.

use scheduler::engine::interface::platform::price::{Money, Price as Known};
use serde::{Deserialize, Deserializer, de::Error};

/// Longest currency name, in characters.
const CURRENCY_CHARACTERS_MAX: usize = 12;
/// No core and no budget costs more.
const AMOUNT_MOST: f64 = 1e12;

/// `price:` of a platform.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "PriceForm")]
pub struct Price(PriceForm);

#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PriceForm {
    core_hour: Option<Amount>,
    pilot_hour: Option<Amount>,
    currency: String,
}

/// An amount of money.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount(pub Money);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        amount(f64::deserialize(deserializer)?).map(Amount).map_err(D::Error::custom)
    }
}

/// Returns `number` as an amount of money; it must be positive.
///
/// # Errors
/// A text that says how to write the amount.
pub fn amount(number: f64) -> Result<Money, String> {
    match (1e-6..=AMOUNT_MOST).contains(&number) {
        true => Ok(Money((number * 1e6).round() as u64)),
        false => Err(format!("found {number}; write an amount from 0.000001 to {AMOUNT_MOST}")),
    }
}

impl TryFrom<PriceForm> for Price {
    type Error = String;

    fn try_from(form: PriceForm) -> Result<Price, String> {
        let currency = &form.currency;
        let is_word = currency.chars().all(|c| !c.is_whitespace() && !c.is_control());
        if currency.is_empty() || currency.chars().count() > CURRENCY_CHARACTERS_MAX || !is_word {
            return Err(format!("found currency `{}`; write a word like EUR", currency.escape_debug()));
        }
        match (form.core_hour, form.pilot_hour) {
            (Some(_), None) | (None, Some(_)) => Ok(Price(form)),
            _ => Err("say either `core_hour`, or `pilot_hour`: what one pilot costs for an hour".to_owned()),
        }
    }
}

impl Price {
    /// Returns the price in the engine's form. `n_cores`: cores of a pilot, which divide the price of a
    /// pilot-hour.
    pub fn known(&self, n_cores: u32) -> Known {
        let of_pilot = |money: Amount| Money(money.0.0.div_ceil(n_cores.max(1).into()));
        let core_hour = self.0.core_hour.map(|money| money.0).or(self.0.pilot_hour.map(of_pilot));
        Known { core_hour: core_hour.unwrap_or_default(), currency: self.0.currency.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(text: &str) -> Result<Known, String> {
        serde_yaml::from_str(text).map(|price: Price| price.known(4)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_core_or_a_pilot_has_a_price() {
        assert_eq!(price("{core_hour: 0.04, currency: EUR}").expect("a price").core_hour, Money(40_000));
        let of_pilot = price("{pilot_hour: 1, currency: credits}").expect("a price");
        assert_eq!((of_pilot.core_hour, of_pilot.currency.as_str()), (Money(250_000), "credits"));
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for (text, expected) in [
            ("{core_hour: 0.04}", "currency"),
            ("{currency: EUR}", "either `core_hour`"),
            ("{core_hour: 1, pilot_hour: 4, currency: EUR}", "either `core_hour`"),
            ("{core_hour: 0, currency: EUR}", "write an amount"),
            ("{core_hour: 1, currency: a b}", "a word like EUR"),
            ("{core_hour: 1, currency: EUR, month: 3}", "unknown field"),
        ] {
            let error = price(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
