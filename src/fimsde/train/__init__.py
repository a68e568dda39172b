"""How weights are learnt: one loop, in which pretraining reads the prior and finetuning one data set."""
