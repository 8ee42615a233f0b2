# Every target is a command of ./hw; nothing is decided here.
.DEFAULT_GOAL := help
.PHONY: demo test check bench venv lock help

demo test check bench venv lock help:
	@./hw $@
