"""xmtc tags texts with the right few labels out of thousands or millions."""
