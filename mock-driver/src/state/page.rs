//! Page tokens. They are opaque, and stay valid as long as the driver lives, whatever is created or deleted in
//! between.

use super::content::hash;

/// The list that a token belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum List {
    Volumes = 1,
    Snapshots = 2,
    Health = 3,
}

/// Creates the token of the page after the object with this sequence number.
pub(crate) fn token(list: List, sequence: u64) -> String {
    format!("{:016x}{:016x}", sequence, seal(list, sequence))
}

/// Returns the sequence number in a token, if [`token`] has created it for this list.
pub(crate) fn sequence(list: List, token: &str) -> Option<u64> {
    let (number, check) = token.split_at_checked(16)?;
    let number = u64::from_str_radix(number, 16).ok()?;
    let check = u64::from_str_radix(check, 16).ok()?;
    (check == seal(list, number) && token == self::token(list, number)).then_some(number)
}

fn seal(list: List, sequence: u64) -> u64 {
    hash(&[0x70_61_67_65, list as u64, sequence])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_own_list_only() {
        let token = token(List::Volumes, 42);
        assert_eq!(sequence(List::Volumes, &token), Some(42));
        assert_eq!(sequence(List::Snapshots, &token), None);
        for wrong in
            ["", "0", "-1", "invalid-token", &token[1..], &token.to_uppercase(), &format!("+{}", &token[1..])]
        {
            assert_eq!(sequence(List::Volumes, wrong), None, "{wrong}");
        }
    }
}
