"""The engines that table `reactive` compares, each behind the same few verbs."""
