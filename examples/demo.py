"""Plain against robust fine-tuning of a small pretrained encoder: minutes on two cores, offline."""

from toughen.demo import demo

if __name__ == "__main__":
    demo("demo-report")
