"""The data model: values, addresses, links, ids, schemas, changes. Pure functions on immutable objects."""
