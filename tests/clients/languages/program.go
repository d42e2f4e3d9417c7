// amqp091-go: what the test of this language expects line by line. Arguments: host, port, prefix of names.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	host, port, name := os.Args[1], os.Args[2], os.Args[3]
	connection, err := amqp.Dial("amqp://guest:guest@" + host + ":" + port + "/")
	check(err)
	channel, err := connection.Channel()
	check(err)
	check(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 10))
	exchange := name + "-exchange"
	check(channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))
	queue, err := channel.QueueDeclare(name+"-queue", true, false, false, false, amqp.Table{"x-max-length": int32(1000)})
	check(err)
	check(channel.QueueBind(queue.Name, "*.orders", exchange, false, nil))
	fmt.Println("declared and bound")

	check(channel.Qos(2, 0, false))
	for _, body := range []string{"a", "b", "c"} {
		check(channel.Publish(exchange, "eu.orders", false, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Headers: amqp.Table{"number": int32(1)}, Body: []byte(body)}))
	}
	check(channel.Publish(exchange, "eu.returns", false, false, amqp.Publishing{Body: []byte("elsewhere")}))
	for i := 0; i < 4; i++ {
		if !(<-confirms).Ack {
			panic("not confirmed")
		}
	}
	fmt.Println("confirmed")

	deliveries, err := channel.Consume(queue.Name, "consumer", false, false, false, false, nil)
	check(err)
	seen := []string{}
	for len(seen) < 3 {
		select {
		case delivery := <-deliveries:
			if string(delivery.Body) == "b" && !delivery.Redelivered {
				check(delivery.Nack(false, true))
				continue
			}
			if delivery.Headers["number"] != int32(1) {
				panic("headers")
			}
			seen = append(seen, string(delivery.Body))
			check(delivery.Ack(false))
		case <-time.After(10 * time.Second):
			panic("nothing came")
		}
	}
	check(channel.Cancel("consumer", false))
	sort.Strings(seen)
	fmt.Println("consumed " + strings.Join(seen, " "))

	check(channel.Publish("", queue.Name, false, false, amqp.Publishing{Body: []byte("d")}))
	<-confirms
	delivery, found, err := channel.Get(queue.Name, false)
	check(err)
	check(delivery.Ack(false))
	_, more, err := channel.Get(queue.Name, false)
	check(err)
	fmt.Printf("got %s, then %s\n", delivery.Body, map[bool]string{true: "more", false: "nothing"}[more || !found])

	other, err := connection.Channel()
	check(err)
	_, err = other.QueueDeclarePassive(name+"-missing", false, false, false, false, nil)
	refusal := err.(*amqp.Error)
	fmt.Printf("refused %d %s\n", refusal.Code, refusal.Reason)
	_, err = channel.QueueDelete(queue.Name, false, false, false)
	check(err)
	check(channel.ExchangeDelete(exchange, false, false))
	check(connection.Close())
	fmt.Println("closed")
}
