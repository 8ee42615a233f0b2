"""The engines that tables compare, each behind the same few verbs."""
