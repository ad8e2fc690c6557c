"""Work that is due by the calendar: which instants are slots, and exactly one run for each of them."""
