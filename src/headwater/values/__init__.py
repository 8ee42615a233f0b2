"""What data is: values, addresses, links, ids, changes. Pure functions over immutable things; knows no store."""
