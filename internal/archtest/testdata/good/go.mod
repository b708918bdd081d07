module good.example/good

go 1.26
